/* Marks that a program puts into its own trace.
 *
 * Every symbol is weak: a program that uses this header links and runs the same where libvramtrace.so is
 * not loaded, and each call is then one test of a null pointer. From Python without this header:
 * `ctypes.CDLL(None).vramtrace_mark(b"after forward")`.
 *
 * Threads: any. Errors: none; a mark that cannot be recorded is counted as dropped in the trace. */
#ifndef VRAMTRACE_API_H
#define VRAMTRACE_API_H

#ifdef __cplusplus
extern "C" {
#endif

/* Puts a mark named `name` (NUL-terminated UTF-8, copied, at most 1023 bytes kept) into the trace. Reports can show that
 * moment: `vramtrace report --at mark:NAME`. Returns 1 if recorded, else 0. */
__attribute__((weak)) int vramtrace_mark(const char *name);

/* The same, and requests an inspection of the live Python objects: names of CUDA tensors, and which name keeps each alive.
 * It runs at the main thread's next safe point, without a time limit. Returns 1 if recorded, else 0. */
__attribute__((weak)) int vramtrace_inspect(const char *name);

/* Between stop and start, events have no stacks, and objects are inspected only by vramtrace_inspect. That costs next to
 * nothing, and every byte is still counted. Allocations from then have a size and a lifetime, but no line; the
 * inspection after start names those still alive. Return 1 if recording is now started or stopped, else 0 (not recording
 * yet, or no longer). VRAMTRACE_START=manual starts paused. */
__attribute__((weak)) int vramtrace_start(void);
__attribute__((weak)) int vramtrace_stop(void);

/* Opens and closes a named range on the calling thread, like NVTX's push and pop; ranges nest.
 * Return 1 if recorded, else 0. */
__attribute__((weak)) int vramtrace_range_push(const char *name);
__attribute__((weak)) int vramtrace_range_pop(void);

#define VRAMTRACE_MARK(name) (vramtrace_mark ? vramtrace_mark(name) : 0)
/* Call this once per training step (or request), always at the same place. If a program calls it, only these calls count
 * as steps. */
#define VRAMTRACE_STEP() VRAMTRACE_MARK("vramtrace.step")
#define VRAMTRACE_INSPECT(name) (vramtrace_inspect ? vramtrace_inspect(name) : 0)
#define VRAMTRACE_START() (vramtrace_start ? vramtrace_start() : 0)
#define VRAMTRACE_STOP() (vramtrace_stop ? vramtrace_stop() : 0)
#define VRAMTRACE_RANGE_PUSH(name) (vramtrace_range_push ? vramtrace_range_push(name) : 0)
#define VRAMTRACE_RANGE_POP() (vramtrace_range_pop ? vramtrace_range_pop() : 0)

#ifdef __cplusplus
}
#endif
#endif
