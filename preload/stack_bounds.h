/* Which part of the calling thread's stack may be read. Threads: any; no lock, no allocation. */
#ifndef VT_STACK_BOUNDS_H
#define VT_STACK_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* Once per session. Under Valgrind the kernel is not asked, since Valgrind would report that call as an
 * error. */
void vt_stack_bounds_start(bool is_under_valgrind);

/* What a walk may read: the calling thread's stack from `low` up to its end, `high`. If the end is not known
 * (coroutines, signal stacks), `high` is the end of what the kernel says is readable, and moves up. */
struct vt_stack_bounds {
    uintptr_t low, high;
    bool end_known;
};

/* The bounds for a walk of the calling thread that starts at `stack_pointer`. */
struct vt_stack_bounds vt_stack_bounds_of(uintptr_t stack_pointer);

/* Whether the kernel can read all pages from `low` to the one before `high`. Valgrind: always true. */
bool vt_stack_is_readable(uintptr_t low, uintptr_t high);

bool vt_stack_extend(struct vt_stack_bounds *bounds, uintptr_t address);

/* Reads the word at `address`. False if it is out of bounds, or not readable. */
static inline __attribute__((no_sanitize("address", "thread"))) bool
vt_stack_read(struct vt_stack_bounds *bounds, uintptr_t address, uint64_t *word)
{
    if (__builtin_expect(address - bounds->low >= bounds->high - bounds->low ||
                             bounds->high - address < sizeof *word,
                         0) &&
        !vt_stack_extend(bounds, address))
        return false;
    *word = *(const volatile uint64_t *)address;
    return true;
}

#endif
