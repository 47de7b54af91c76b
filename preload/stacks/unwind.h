/* Steps up a native stack using the unwind tables (unwind_tables.h). Threads: any; touches nothing but
 * memory. */
#ifndef VT_UNWIND_H
#define VT_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "stack_bounds.h"
#include "stacks/unwind_tables.h"

/* Once per session, before the first walk, from a thread that may take the loader's lock. */
void vt_unwind_start(void);

/* The registers of a frame that its caller's are computed from. */
struct vt_unwind_frame {
    uint64_t registers[VT_REGISTERS]; /* [VT_REGISTER_RETURN]: where the frame executes */
    bool exact;                       /* the address is not a return address: the frame was interrupted */
};

/* The calling function's own frame. */
#if defined __x86_64__
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
#else
#define VT_UNWIND_HERE(frame)                                                                                \
    do {                                                                                                     \
        uint64_t *vt_here = (frame)->registers;                                                              \
        __asm__ volatile("stp x19, x20, [%0, #152]\n\tstp x21, x22, [%0, #168]\n\t"                          \
                         "stp x23, x24, [%0, #184]\n\tstp x25, x26, [%0, #200]\n\t"                          \
                         "stp x27, x28, [%0, #216]\n\tstp x29, x30, [%0, #232]\n\t"                          \
                         "mov x9, sp\n\tadr x10, 0f\n0:\tstp x9, x10, [%0, #248]"                            \
                         :                                                                                   \
                         : "r"(vt_here)                                                                      \
                         : "x9", "x10", "memory");                                                           \
        (frame)->exact = true;                                                                               \
    } while (0)
#endif

/* A return address as tables and symbols know it: AArch64's processors may sign it in its upper bits. */
static inline uint64_t vt_without_signature(uint64_t address)
{
#if defined __aarch64__
    register uint64_t x30 __asm__("x30") = address;
    __asm__("hint #7" : "+r"(x30)); /* xpaclri; processors without signatures do nothing there */
    return x30;
#else
    return address;
#endif
}

/* Whether a handler that returns to `address` goes back to what a signal interrupted. Only for addresses that
 * no table covers. */
bool vt_unwind_is_signal_return(uintptr_t address);

/* Replaces `frame` by its caller. False at the outermost frame, where no table covers the code, or where the
 * table is wrong. */
bool vt_unwind_step(struct vt_unwind_frame *frame, struct vt_stack_bounds *bounds);

#endif
