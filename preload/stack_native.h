/* Native call stacks, by libunwind, which is loaded privately: as a dependency of a preloaded library its
 * _Unwind_* symbols would take over the C++ exceptions of the whole process. */
#ifndef VT_STACK_NATIVE_H
#define VT_STACK_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VT_NATIVE_DEPTH = 128 };

/* Once per session, in its writer thread: it takes the loader's lock. With `wanted` false, or no libunwind,
 * no native frames are recorded. (Not wanted either in the child of a process that recorded: another thread
 * of the parent may have held a lock of libunwind at the fork. No CUDA driver works in such a child anyway.)
 */
void vt_native_start(bool wanted);

/* In the writer thread, now and then: ends native stacks if the host has closed what libunwind holds open. */
void vt_native_check(void);

/* Looks, once Python is there, for the interpreter's evaluation function, where native stacks end and Python
 * frames take over. In the writer thread. */
void vt_native_find_interpreter(void);

/* In the writer thread: the function of a frame's return address, as a linkage name. Native stacks also end
 * at the loop of autograd's engine, which is not included. */
void vt_native_note_symbol(uint64_t return_address, const char *linkage_name);

/* Return addresses of the calling thread's frames, innermost first, from the caller's caller's caller on: at
 * most VT_NATIVE_DEPTH. Stops at the interpreter's frame, which is not included. `below_python`: the thread
 * has Python frames, so the interpreter is to be met. Mixes into *hash. */
size_t vt_native_walk(uint64_t addresses[VT_NATIVE_DEPTH], bool below_python, uint64_t *hash,
                      bool *truncated);

#endif
