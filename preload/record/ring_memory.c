#include "record/ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "memory.h"
#include "thread.h"

/* A small /dev/shm is for the host: without VRAMTRACE_RING the ring takes at most this part of the free
 * space. */
enum { PART_OF_FREE_SPACE = 64 };

const char *vt_ring_folder(const struct vt_options *options, unsigned number)
{
    const char *const folders[] = {"/dev/shm", options->runtime_folder[0] ? options->runtime_folder : NULL};
    return number < sizeof folders / sizeof *folders ? folders[number] : NULL;
}

static uint64_t slots_of(uint64_t bytes)
{
    uint64_t slots = 1;
    while (slots * 2 * VT_SLOT_BYTES <= bytes)
        slots *= 2;
    return slots;
}

/* How many slots a ring in this folder may have; 0 = it cannot be there. */
static uint64_t slots_in(const char *folder, const struct vt_options *options)
{
    struct statfs file_system;
    struct rlimit limit;
    uint64_t bytes = options->ring_bytes;
    if (statfs(folder, &file_system) ||
        (file_system.f_type != TMPFS_MAGIC && file_system.f_type != RAMFS_MAGIC))
        return 0;
    const uint64_t part = (uint64_t)file_system.f_bavail * (uint64_t)file_system.f_bsize / PART_OF_FREE_SPACE;
    /* A tmpfs without a limit reports 0 blocks. */
    if (!options->ring_was_set && file_system.f_blocks && part < bytes)
        bytes = part;
    if (bytes < VT_RING_MINIMUM_BYTES)
        return 0;
    /* Exceeding this limit raises a signal that would kill the host. */
    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < VT_RING_HEADER_BYTES + slots_of(bytes) * VT_SLOT_BYTES)
        return 0;
    return slots_of(bytes);
}

/* The file is really allocated: a store to a hole in a full file system would kill the process. */
static void *map_file(const char *path, size_t bytes)
{
    void *memory = MAP_FAILED;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return NULL;
    if (!posix_fallocate(file, 0, (off_t)bytes))
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file); /* some hosts close or count descriptors that they do not know */
    if (memory == MAP_FAILED) {
        unlink(path);
        return NULL;
    }
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

static void *map_in_folders(struct vt_ring *ring, const struct vt_options *options,
                            const struct vt_process_identity *process, uint64_t number,
                            char path[VT_RING_PATH_BYTES])
{
    const char *folder;
    for (unsigned i = 0; (folder = vt_ring_folder(options, i)); i++) {
        void *memory = NULL;
        ring->slot_count = slots_in(folder, options);
        int length = snprintf(path, VT_RING_PATH_BYTES, "%s/" VT_RING_NAME, folder, process->user_id,
                              process->pid, (unsigned long long)number);
        if (ring->slot_count && length < (int)VT_RING_PATH_BYTES)
            memory = map_file(path, vt_ring_mapped_bytes(ring));
        if (memory)
            return memory;
    }
    path[0] = 0;
    return NULL;
}

/* Makes the calling thread the holder of the ring's robust futex. The thread is ours, and uses no robust
 * mutex of the C library. All of the list lies in the ring: private memory may be gone before the kernel
 * reads it. */
static void hold_until_death(struct vt_ring_header *header)
{
    struct {
        struct robust_list_head head;
        struct robust_list entry;
    } *list = (void *)header->writer_list;
    _Static_assert(sizeof *list == sizeof header->writer_list, "the list has its place");
    list->head.list.next = &list->entry;
    list->entry.next = &list->head.list;
    list->head.futex_offset = (char *)&header->writer - (char *)&list->entry;
    header->writer = (uint32_t)syscall(SYS_gettid);
    if (syscall(SYS_set_robust_list, &list->head, sizeof list->head))
        header->writer = 0;
}

int vt_ring_make(struct vt_ring *ring, const struct vt_options *options,
                 const struct vt_process_identity *process, const uint8_t identity[16],
                 char path[VT_RING_PATH_BYTES])
{
    uint64_t number;
    memcpy(&number, identity, sizeof number);
    *ring = (struct vt_ring){0};
    void *memory = map_in_folders(ring, options, process, number, path);
    if (!memory) {
        ring->slot_count = slots_of(options->ring_bytes);
        memory = vt_memory_make(vt_ring_mapped_bytes(ring));
    }
    if (!memory)
        return -ENOMEM;
    ring->header = memory;
    ring->slots = (uint8_t *)memory + VT_RING_HEADER_BYTES;
    struct vt_ring_header *header = ring->header;
    header->format_version = VT_FORMAT_VERSION;
    header->header_bytes = VT_RING_HEADER_BYTES;
    header->slots = ring->slot_count;
    header->process = *process;
    memcpy(header->identity, identity, sizeof header->identity);
    hold_until_death(header);
    uint64_t magic; /* last: other processes take what has it for a ring */
    memcpy(&magic, VT_RING_MAGIC, sizeof magic);
    __atomic_store_n((uint64_t *)(void *)header->magic, magic, __ATOMIC_RELEASE);
    return 0;
}

/* Unlinking alone would keep the file's memory in use as long as the header is mapped, so it is punched out
 * first. */
static void remove_file(void *path)
{
    struct stat status;
    int file = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (file >= 0 && !fstat(file, &status) && S_ISREG(status.st_mode) &&
        status.st_size > VT_RING_HEADER_BYTES)
        fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, VT_RING_HEADER_BYTES,
                  status.st_size - VT_RING_HEADER_BYTES);
    if (file >= 0)
        close(file);
    unlink(path);
}

void vt_ring_release(const struct vt_ring *ring, char *path)
{
    if (path[0] &&
        mmap(ring->slots, ring->slot_count * VT_SLOT_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED &&
        !vt_run_apart(remove_file, path))
        remove_file(path);
}

void vt_ring_discard(struct vt_ring *ring, const char *path)
{
    if (!ring->header)
        return;
    syscall(SYS_set_robust_list, NULL, sizeof(struct robust_list_head));
    munmap(ring->header, vt_ring_mapped_bytes(ring));
    if (path[0])
        unlink(path);
}
