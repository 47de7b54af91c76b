#include "record/libraries.h"

#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "guard.h"
#include "hash.h"
#include "loader/elf_walk.h"
#include "loader/fork_gate.h"
#include "memory.h"
#include "stacks/native.h"
#include "stacks/unloads.h"

enum {
    BUILD_ID_MAXIMUM_BYTES = 64,
    TURNS = 2000,
    TURN_NS = 50000,
};

struct library {
    uintptr_t start, end;
    uint64_t name; /* its hash */
    bool there, is_new;
};

static struct {
    _Atomic int locked;
    struct vt_elf_changes noted;
    struct library *items; /* in the loader's order, but for those that were loaded since */
    size_t count, capacity;
    struct vt_buffer definitions; /* not yet taken */
} libraries;

/* Inside the fork gate, so that no signal handler comes and no child inherits it locked. */
static bool lock(void)
{
    for (int turn = 0; turn < TURNS; turn++) {
        if (!atomic_exchange_explicit(&libraries.locked, 1, memory_order_acquire))
            return true;
        vt_nap(TURN_NS);
    }
    return false;
}

static void unlock(void)
{
    atomic_store_explicit(&libraries.locked, 0, memory_order_release);
}

/* False if it has no code or data. */
static bool read_library(const struct dl_phdr_info *info, struct library *library)
{
    *library = (struct library){.start = UINTPTR_MAX, .there = true, .is_new = true};
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD)
            continue;
        const uintptr_t from = info->dlpi_addr + segment->p_vaddr;
        library->start = from < library->start ? from : library->start;
        library->end = from + segment->p_memsz > library->end ? from + segment->p_memsz : library->end;
    }
    for (const char *c = info->dlpi_name; c && *c; c++)
        library->name = vt_hash_add(library->name, (unsigned char)*c);
    return library->start < library->end;
}

/* The listed one. `*next`: where it probably is; moves behind it. */
static struct library *find_library(const struct library *wanted, size_t *next)
{
    for (size_t i = 0; i < libraries.count; i++) {
        const size_t at = (*next + i) % libraries.count;
        struct library *library = &libraries.items[at];
        if (library->start == wanted->start && library->end == wanted->end && library->name == wanted->name) {
            *next = at + 1;
            return library;
        }
    }
    return NULL;
}

static struct library *add_library(void)
{
    if (libraries.count == libraries.capacity) {
        const size_t capacity = libraries.capacity * 2 + 256;
        struct library *items =
            vt_memory_grow(libraries.items, libraries.capacity * sizeof *items, capacity * sizeof *items);
        if (!items)
            return NULL;
        libraries.items = items;
        libraries.capacity = capacity;
    }
    return &libraries.items[libraries.count++];
}

static int list_library(struct dl_phdr_info *info, size_t info_bytes, void *next)
{
    struct library library, *known;
    (void)info_bytes;
    if (!read_library(info, &library))
        return 0;
    known = find_library(&library, next);
    if (known)
        known->there = true;
    else if ((known = add_library()))
        *known = library;
    return 0;
}

/* ---- modules ---- */

/* Tools that rewrite libraries may leave notes outside of all loaded segments. */
static bool is_loaded(const struct dl_phdr_info *info, const ElfW(Phdr) * part)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_R) && part->p_vaddr >= segment->p_vaddr &&
            part->p_memsz <= segment->p_filesz &&
            part->p_vaddr - segment->p_vaddr <= segment->p_filesz - part->p_memsz)
            return true;
    }
    return false;
}

static size_t find_build_id(const struct dl_phdr_info *info, const uint8_t **build_id)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE || !is_loaded(info, segment))
            continue;
        const uint8_t *note = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);
        const uint8_t *end = note + segment->p_memsz;
        while (end - note >= (ptrdiff_t)sizeof(ElfW(Nhdr))) { /* the last padding may reach further */
            const ElfW(Nhdr) *head = (const void *)note;
            const uint8_t *name = note + sizeof *head;
            const uint8_t *content = name + ((head->n_namesz + 3u) & ~3u);
            if (content > end || head->n_descsz > (size_t)(end - content))
                break;
            if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                *build_id = content;
                return head->n_descsz < BUILD_ID_MAXIMUM_BYTES ? head->n_descsz : BUILD_ID_MAXIMUM_BYTES;
            }
            note = content + ((head->n_descsz + 3u) & ~3u);
        }
    }
    return 0;
}

/* Once for each part of it that has a mark of its own. */
static void define_module(const struct dl_phdr_info *info, const struct library *library)
{
    static char executable[PATH_MAX]; /* only one thread is here at a time */
    const char *path = info->dlpi_name;
    if (!*path) { /* the program itself */
        ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
        executable[length > 0 ? length : 0] = 0;
        path = executable;
    }
    const uint8_t *build_id = NULL;
    const size_t build_id_bytes = find_build_id(info, &build_id), path_bytes = strlen(path);
    uint64_t mark;
    for (uintptr_t start = library->start, end; start < library->end; start = end) {
        end = vt_unloads_run(start, library->end, &mark);
        struct vt_module *record = vt_buffer_definition(&libraries.definitions, VT_RECORD_MODULE,
                                                        sizeof *record, build_id_bytes + path_bytes);
        if (!record)
            return;
        record->base = info->dlpi_addr | mark;
        record->start_address = start | mark;
        record->end_address = end | mark;
        record->build_id_bytes = (uint32_t)build_id_bytes;
        record->path_bytes = (uint32_t)path_bytes;
        if (build_id_bytes)
            memcpy(record + 1, build_id, build_id_bytes);
        memcpy((char *)(record + 1) + build_id_bytes, path, path_bytes);
    }
}

static int define_if_new(struct dl_phdr_info *info, size_t info_bytes, void *next)
{
    struct library library, *known;
    (void)info_bytes;
    if (read_library(info, &library) && (known = find_library(&library, next)) && known->is_new) {
        known->is_new = false;
        define_module(info, known);
    }
    return 0;
}

/* ---- all ---- */

/* Marks where those were that are gone, and takes them off the list. */
static bool drop_unloaded(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < libraries.count; i++) {
        if (libraries.items[i].there)
            libraries.items[kept++] = libraries.items[i];
        else
            vt_unloads_add(libraries.items[i].start, libraries.items[i].end);
    }
    const bool any = kept < libraries.count;
    libraries.count = kept;
    return any;
}

static void note(void)
{
    const struct vt_elf_changes changes = vt_elf_changes();
    size_t next = 0;
    if (changes.loads == libraries.noted.loads && changes.unloads == libraries.noted.unloads)
        return;
    for (size_t i = 0; i < libraries.count; i++)
        libraries.items[i].there = false;
    vt_elf_iterate(list_library, &next);
    if (drop_unloaded() || changes.unloads != libraries.noted.unloads)
        vt_native_forget();
    next = 0;
    vt_elf_iterate(define_if_new, &next);
    libraries.noted = changes;
}

void vt_libraries_begin(void)
{
    libraries.items = NULL; /* a forked child's parent had them */
    libraries.count = libraries.capacity = 0;
    libraries.definitions = (struct vt_buffer){0};
    libraries.noted = (struct vt_elf_changes){0, 0};
    unlock();
}

void vt_libraries_note(void)
{
    const int saved_errno = errno;
    struct vt_gate gate;
    vt_gate_enter(&gate);
    if (lock()) {
        note();
        unlock();
    }
    vt_gate_leave(&gate);
    errno = saved_errno;
}

void vt_libraries_define(struct vt_buffer *definitions)
{
    struct vt_gate gate;
    vt_gate_enter(&gate);
    if (lock()) {
        struct vt_buffer *found = &libraries.definitions;
        void *copy = found->bytes ? vt_buffer_add(definitions, found->bytes) : NULL;
        if (copy) {
            memcpy(copy, found->data, found->bytes);
            found->bytes = 0;
        }
        unlock();
    }
    vt_gate_leave(&gate);
}
