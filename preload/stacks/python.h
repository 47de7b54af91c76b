/* Python frames of the calling thread, read from its own frame chain: no GIL, no lock, no allocation.
 *
 * While a thread is inside a C call its Python frames do not run, whether it holds the GIL or not, so what
 * is read here cannot change or go away. Threads: any. */
#ifndef VT_STACK_PYTHON_H
#define VT_STACK_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stacks/python_layout.h"

struct vt_raw_python_frame {
    const void *code;           /* PyCodeObject; valid as long as the frame, so describe it at once */
    int32_t instruction_offset; /* bytes from the first instruction, as frame.f_lasti; -1 before it */
    uint64_t self_address;      /* of the module or optimizer whose method runs in the frame, 0 = none; never
                                   dereferenced */
};

struct vt_python_stack {
    /* Of all frames: two walks that differ in code, instruction or self have different hashes, even if
     * another code object got the address of one that died. */
    uint64_t hash;
    size_t frames;         /* 0 without Python */
    bool truncated;        /* there were more than the capacity */
    bool unreadable;       /* the chain is invalid after these frames */
    uintptr_t entry_frame; /* from 3.12 on: the frame that the innermost evaluation keeps on the C stack, for
                              vt_native_walk; 0 = none seen */
};

/* Walks the calling thread's frames, innermost first, and stores at most `capacity` of them. */
void vt_python_walk(struct vt_raw_python_frame *frames, size_t capacity, struct vt_python_stack *stack);

/* A thread's latest walk. In the next one most outer frames are still the same: they are compared instead of
 * read again. All zero at first. Used by one thread at a time. */
enum { VT_RECENT_FRAMES = 128 };
struct vt_recent_frame { /* what is compared: one cache line */
    const char *at, *previous, *code;
    uint64_t instruction, first_instruction, guard; /* as read from the frame and its code (python.c) */
    uintptr_t self;
    uint16_t self_note;
    uint8_t owner, state;
} __attribute__((aligned(64)));
struct vt_recent_sum { /* from a frame outward */
    uint64_t hash;
    uintptr_t entry_frame; /* the innermost */
    size_t frames;
};
struct vt_recent_frames {
    size_t count;
    uint64_t deaths; /* vt_python_code_deaths when all of these were compared or read */
    struct vt_recent_frame known[VT_RECENT_FRAMES]; /* outermost first */
    struct vt_recent_sum sums[VT_RECENT_FRAMES];    /* of these */
    struct vt_recent_frame fresh[VT_RECENT_FRAMES]; /* of the current walk, innermost first */
    uint64_t terms[VT_RECENT_FRAMES];               /* of these: their own parts of the hash */
};

/* The result of vt_python_walk with that capacity, without storing frames. `recent`: the thread's, or NULL.
 */
void vt_python_hash(struct vt_recent_frames *recent, size_t capacity, struct vt_python_stack *stack);

#endif
