/* Native call stacks, by libunwind, which is loaded privately: as a dependency of a preloaded library its
 * _Unwind_* symbols would take over the C++ exceptions of the whole process. */
#ifndef VT_STACK_NATIVE_H
#define VT_STACK_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VT_NATIVE_DEPTH = 128 };

/* Once per process, at its first event. With `wanted` false, or no libunwind, no native frames are recorded. */
void vt_native_start(bool wanted);

/* Tells the interpreter's evaluation function, where native stacks end and Python frames take over. */
void vt_native_set_interpreter(const void *start, size_t bytes);

/* Return addresses of the calling thread's frames, innermost first, from the caller's caller's caller on: at most
 * VT_NATIVE_DEPTH. Stops at the interpreter's frame, which is not included. `below_python`: the thread has Python frames,
 * so the interpreter is to be met. Mixes into *hash. */
size_t vt_native_walk(uint64_t addresses[VT_NATIVE_DEPTH], bool below_python, uint64_t *hash, bool *truncated);

#endif
