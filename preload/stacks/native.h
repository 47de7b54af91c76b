/* Native call stacks of the calling thread.
 *
 * A walk reads the thread's own stack and the unwind tables of the loaded libraries, nothing else: no lock,
 * no allocation, no descriptor; a system call only for the first walk of a thread and on stacks whose end is
 * not known (unwind.h). The step up from each return address is remembered for all threads. */
#ifndef VT_STACK_NATIVE_H
#define VT_STACK_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VT_NATIVE_DEPTH = 128 };

/* Once per session, in its writer thread: it takes the loader's lock. With `wanted` false no native frames
 * are recorded. */
void vt_native_start(bool wanted);

/* Libraries were unloaded: other code may soon be at their addresses. Any thread. */
void vt_native_forget(void);

/* Once Python is loaded, finds the interpreter's evaluation function, where native stacks end and Python
 * frames begin. In the writer thread. */
void vt_native_find_interpreter(void);

/* In the writer thread: the function of a frame's return address, as a linkage name. Native stacks also end
 * at the loop of autograd's engine, which is not included. */
void vt_native_note_symbol(uint64_t return_address, const char *linkage_name);

/* Return addresses of the calling thread's frames outside of this library, innermost first, at most
 * VT_NATIVE_DEPTH. Stops before the interpreter's frame, and where no table knows the code. Mixes into *hash.
 */
size_t vt_native_walk(uint64_t addresses[VT_NATIVE_DEPTH], uintptr_t entry_frame, uint64_t *hash,
                      bool *truncated);

#endif
