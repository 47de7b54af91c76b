/* Memory from the kernel, mostly for the writer thread: a thread that never calls malloc gets no arena, which
 * would take 64 MiB of the host's address space, and waits for no lock of the host's allocator. Threads: any.
 */
#ifndef VT_MEMORY_H
#define VT_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* New memory, zero, that the kernel reserves only as it is touched and that a forked child does not inherit.
 * NULL without memory. */
static inline void *vt_memory_make(size_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    madvise(memory, bytes, MADV_DONTFORK);
    return memory;
}

/* New memory, zero, that the kernel zeroes in a forked child. NULL if it cannot be had (Linux before 4.14).
 */
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

/* In a forked child: empty memory at addresses that it did not inherit. */
static inline void vt_replace_memory(void *memory, size_t bytes)
{
    if (memory)
        mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
             -1, 0);
}

/* Replaces a mapping of `bytes_before` (NULL and 0: none) by a larger one of `bytes` with the same contents,
 * the rest zero. NULL without memory: then the old mapping stays as it is. */
static inline void *vt_memory_grow(void *memory, size_t bytes_before, size_t bytes)
{
    void *grown = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED || (uintptr_t)grown % 4096) /* a sandbox answered for the kernel */
        return NULL;
    if (bytes_before)
        memcpy(grown, memory, bytes_before);
    vt_memory_free(memory, bytes_before);
    return grown;
}

#endif
