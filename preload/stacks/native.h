/* Native call stacks of the calling thread.
 *
 * A walk reads only the thread's own stack and the unwind tables of the loaded libraries: no lock, no
 * allocation, no descriptor. It makes system calls only for a thread's first walk and on stacks whose end is
 * not known (stack_bounds.h). The step up from each return address is remembered for all threads. */
#ifndef VT_STACK_NATIVE_H
#define VT_STACK_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VT_NATIVE_DEPTH = 128 };

/* Once per session, in the writer thread, since it takes the loader's lock. If `wanted` is false, no native
 * frames are recorded. */
void vt_native_start(bool wanted);

/* To be called when libraries were unloaded: other code may soon be at their addresses. Any thread. */
void vt_native_forget(void);

/* Once Python is loaded, finds the interpreter's evaluation function, where native stacks end and Python
 * frames begin. In the writer thread. */
void vt_native_find_interpreter(void);

/* In the writer thread: the linkage name of the function around a return address. Native stacks also end at
 * the loop of autograd's engine, which is left out. */
void vt_native_note_symbol(uint64_t return_address, const char *linkage_name);

/* A thread's recent walks, each with the places on the stack that it read: as long as the words there hash
 * to the same value, the walk need not be repeated. All zero at first. Used by one thread at a time. */
enum { VT_RECENT_SETS = 64, VT_RECENT_WAYS = 4, VT_RECENT_WORDS = 96 };
struct vt_recent_walk {
    uintptr_t start, entry_frame, stack_end; /* where it started, its entry_frame, how far it could read */
    uint64_t hash;                           /* its result */
    uint64_t words_hash;                     /* of the words that it read */
    uint32_t generation;                     /* native.c's generation at that time */
    uint16_t words;                          /* a multiple of 4; 0 = none */
    uint16_t next;                           /* the walk that followed it last time */
    uint16_t offsets[VT_RECENT_WORDS];       /* in words of 8 bytes from `start` */
};
struct vt_recent_walks {
    struct vt_recent_walk walks[VT_RECENT_SETS * VT_RECENT_WAYS];
    uint8_t oldest[VT_RECENT_SETS];
    uint16_t latest;
};

/* Return addresses of the calling thread's frames outside of this library, innermost first, at most
 * VT_NATIVE_DEPTH. The walk stops before the interpreter's frame (recognised by its function, or by having
 * `entry_frame` on its stack; see vt_python_walk; 0 = not known), and where no table covers the code. */
size_t vt_native_walk(uint64_t addresses[VT_NATIVE_DEPTH], uintptr_t entry_frame, bool *truncated);

/* The hash of what that walk would find. `recent`: the calling thread's, or NULL. */
uint64_t vt_native_hash(struct vt_recent_walks *recent, uintptr_t entry_frame);

#endif
