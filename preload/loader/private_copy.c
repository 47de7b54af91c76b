#include "loader/private_copy.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file_io.h"
#include "loader/fork_gate.h"

enum { LARGEST_BYTES = 64 << 20, MEMFD_CLOEXEC = 1 };
/* A tag from the range for operating systems, unknown to every loader. */
#define IGNORED_TAG (DT_LOOS + 1)

static bool is_unwanted(ElfW(Sxword) tag)
{
    return tag == DT_SONAME || tag == DT_FINI || tag == DT_FINI_ARRAY || tag == DT_FINI_ARRAYSZ;
}

/* False if the image is not understood. */
static bool make_nameless(unsigned char *image, size_t bytes)
{
    ElfW(Ehdr) head;
    ElfW(Phdr) part;
    ElfW(Dyn) entry;
    bool found = false;
    if (bytes < sizeof head)
        return false;
    memcpy(&head, image, sizeof head);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_phentsize != sizeof part || head.e_phoff > bytes ||
        head.e_phnum > (bytes - head.e_phoff) / sizeof part)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        memcpy(&part, image + head.e_phoff + i * sizeof part, sizeof part);
        if (part.p_type != PT_DYNAMIC || part.p_offset > bytes || part.p_filesz > bytes - part.p_offset)
            continue;
        found = true;
        for (size_t at = 0; part.p_filesz - at >= sizeof entry; at += sizeof entry) {
            memcpy(&entry, image + part.p_offset + at, sizeof entry);
            if (entry.d_tag == DT_NULL)
                break;
            if (is_unwanted(entry.d_tag)) {
                entry.d_tag = IGNORED_TAG;
                memcpy(image + part.p_offset + at, &entry, sizeof entry);
            }
        }
    }
    return found;
}

/* Returns a file in memory, or -1. */
static int copy_file(const char *path)
{
    struct stat status;
    int copy = -1, file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const bool fits = !fstat(file, &status) && S_ISREG(status.st_mode) && status.st_size <= LARGEST_BYTES;
    const size_t bytes = fits ? (size_t)status.st_size : 0;
    void *image = bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0) : MAP_FAILED;
    close(file);
    if (image == MAP_FAILED)
        return -1;
    if (make_nameless(image, bytes))
        copy = (int)syscall(SYS_memfd_create, "vramtrace", MEMFD_CLOEXEC);
    if (copy >= 0 && vt_write_all(copy, image, bytes, 0)) {
        close(copy);
        copy = -1;
    }
    munmap(image, bytes);
    return copy;
}

/* The loader keeps the name /proc/…/fd/N, and whoever inspects loaded libraries later may open it. So N is a
 * number that no thread will have open. */
static int move_away(int file)
{
    enum { UNUSED_NUMBER = 1000 };
    const int moved = fcntl(file, F_DUPFD_CLOEXEC, UNUSED_NUMBER);
    close(file);
    return moved;
}

void *vt_load_private_copy(const char *path)
{
    char name[48];
    const int file = copy_file(path), copy = file < 0 ? -1 : move_away(file);
    if (copy < 0)
        return NULL;
    snprintf(name, sizeof name, "/proc/thread-self/fd/%d", copy);
    struct vt_gate gate;
    vt_gate_enter(&gate);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    vt_gate_leave(&gate);
    close(copy);
    return library;
}
