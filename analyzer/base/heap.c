#include "base/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __GLIBC__
/* What the heap begins with: address space, of which only what is used takes memory. */
#define FIRST_BYTES (256 << 20)
#define HUGE_BYTES ((uintptr_t)2 << 20)

void vt_heap_prepare(void)
{
    mallopt(M_ARENA_MAX, 1); /* threads take from it, too */
    mallopt(M_TRIM_THRESHOLD, INT32_MAX);
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* larger ones grow in place by moving their pages */
    uintptr_t begin = (uintptr_t)sbrk(0);
    mallopt(M_TOP_PAD, FIRST_BYTES);
    void *volatile more_than_there_is = malloc(1 << 20);
    free(more_than_there_is);
    mallopt(M_TOP_PAD, 16 << 20);
    uintptr_t end = (uintptr_t)sbrk(0);
    begin = (begin + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
    if (end > begin)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
}
#else
void vt_heap_prepare(void) {}
#endif
