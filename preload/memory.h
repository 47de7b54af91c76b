/* Memory straight from the kernel, mostly for the writer thread. A thread that never calls malloc gets no
 * arena, which would take 64 MiB of the host's address space, and never waits for the host's allocator.
 * Threads: any. */
#ifndef VT_MEMORY_H
#define VT_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* New zeroed memory that is allocated only when touched, and that a forked child does not inherit. NULL if
 * there is none. */
static inline void *vt_memory_make(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

/* New zeroed memory that the kernel zeroes again in a forked child. NULL if there is none, or before Linux
 * 4.14. */
static inline void *vt_memory_make_wiped(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (madvise(memory, bytes, MADV_WIPEONFORK) == 0)
        return memory;
    munmap(memory, bytes);
    return NULL;
}

static inline void vt_memory_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

/* In a forked child: maps empty memory at addresses that were not inherited. */
static inline void vt_replace_memory(void *memory, size_t bytes)
{
    if (memory)
        mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0);
}

/* Replaces a mapping of `bytes_before` (NULL and 0: none) by a larger one with the same contents, the rest
 * zeroed. NULL if there is no memory: then the old mapping stays. */
static inline void *vt_memory_grow(void *memory, size_t bytes_before, size_t bytes)
{
    void *grown = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED || (uintptr_t)grown % 4096) /* a sandbox answered instead of the kernel */
        return NULL;
    if (bytes_before)
        memcpy(grown, memory, bytes_before);
    vt_memory_free(memory, bytes_before);
    return grown;
}

#endif
