/* Steps up a native stack by the unwind tables (unwind_tables.h). Threads: any; nothing but memory is
 * touched. */
#ifndef VT_UNWIND_H
#define VT_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "stacks/unwind_tables.h"

/* Once per session, before the first walk, from a thread that may take the loader's lock. */
void vt_unwind_start(void);

/* The memory that a walk may read: the calling thread's stack from `low` to its end, `high`. Where the end is
 * not known (coroutines, signal stacks), `high` is the end of what the kernel says is readable, and moves up.
 */
struct vt_stack_range {
    uintptr_t low, high;
    bool end_known;
};

/* The range of the calling thread for a walk that starts at `stack_pointer`. */
struct vt_stack_range vt_stack_range_of(uintptr_t stack_pointer);

/* The word at `address`. False if it is not in the range, or not readable. */
static inline bool vt_stack_read(struct vt_stack_range *range, uintptr_t address, uint64_t *word);

/* The registers of a frame that its caller's are computed from. */
struct vt_unwind_frame {
    uint64_t registers[VT_REGISTERS]; /* [VT_REGISTER_RETURN]: where the frame executes */
    bool exact;                       /* that address is not a return address: the frame was interrupted */
};

/* The calling function's own frame. */
#define VT_UNWIND_HERE(frame)                                                                                \
    do {                                                                                                     \
        uint64_t *vt_here = (frame)->registers;                                                              \
        __asm__ volatile("movq %%rbx, 24(%0)\n\tmovq %%rbp, 48(%0)\n\tmovq %%rsp, 56(%0)\n\t"                \
                         "movq %%r12, 96(%0)\n\tmovq %%r13, 104(%0)\n\tmovq %%r14, 112(%0)\n\t"              \
                         "movq %%r15, 120(%0)\n\tleaq 0f(%%rip), %%rax\n0:\tmovq %%rax, 128(%0)"             \
                         :                                                                                   \
                         : "r"(vt_here)                                                                      \
                         : "rax", "memory");                                                                 \
        (frame)->exact = true;                                                                               \
    } while (0)

/* Makes `frame` its caller. False at the outermost frame, where no table has the code, or where the table is
 * wrong. */
bool vt_unwind_step(struct vt_unwind_frame *frame, struct vt_stack_range *range);

bool vt_stack_extend(struct vt_stack_range *range, uintptr_t address);

static inline __attribute__((no_sanitize("address", "thread"))) bool
vt_stack_read(struct vt_stack_range *range, uintptr_t address, uint64_t *word)
{
    if (__builtin_expect(
            address - range->low >= range->high - range->low || range->high - address < sizeof *word, 0) &&
        !vt_stack_extend(range, address))
        return false;
    *word = *(const volatile uint64_t *)address;
    return true;
}

#endif
