/* Python frames of the calling thread, read from its own frame chain: no GIL, no lock, no allocation.
 *
 * While a thread is inside a C call its Python frames do not run, whether it holds the GIL or not: what is
 * read here cannot change or go away meanwhile. Threads: any. */
#ifndef VT_STACK_PYTHON_H
#define VT_STACK_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stacks/python_layout.h"

struct vt_raw_python_frame {
    const void *code;           /* PyCodeObject; valid while the frame is, so describe it at once */
    int32_t instruction_offset; /* bytes from the first instruction, as frame.f_lasti; -1 before it */
    uint64_t self_address;      /* of the module or optimizer that the frame runs in, 0 = none; never read */
};

/* Walks the calling thread's frames, innermost first. Returns the number stored in `frames` (0 without
 * Python) and mixes them into *hash: two walks that differ in code, instruction or self differ in hash, also
 * where another code object got the address of one that died. *truncated: there were more than `capacity`.
 * *unreadable: the chain is not valid from there on. *entry_frame: from 3.12 on the frame that the innermost
 * evaluation keeps on the C stack, for vt_native_walk; 0 = none seen. */
size_t vt_python_walk(struct vt_raw_python_frame *frames, size_t capacity, uint64_t *hash, bool *truncated,
                      bool *unreadable, uintptr_t *entry_frame);

struct vt_python_code_view {
    /* The caller's buffer for names that are not ASCII, both together; what does not fit is cut off. */
    char *buffer;
    size_t buffer_bytes;

    const char *file; /* UTF-8, not terminated; in the code object or in `buffer` */
    size_t file_bytes;
    const char *name; /* the qualified name from 3.11 on */
    size_t name_bytes;
    const uint8_t *line_table; /* in the version's format: co_lnotab in 3.9, co_linetable from 3.10 on */
    size_t line_table_bytes;
    int32_t first_line;
    uint16_t python_minor;
};

/* Describes a code object of the last walk. Same thread, before anything runs that could end its frames. The
 * view's pointers live as long as the code object. False: it is no code object, and the view is not filled.
 */
bool vt_python_describe_code(const void *code, struct vt_python_code_view *view);

/* Local variables, read raw: `frame.f_locals` would leave a dict behind that keeps the objects alive for as
 * long as the frame runs. Threads: one that holds the GIL, so that objects stay alive and no frame runs
 * during the visit.
 *
 * `function` (the qualified name from 3.11 on) and `name` are Python strings, `value` a Python object; all
 * borrowed. False ends the visit. */
typedef bool vt_python_local_visit(void *context, const void *function, const void *name, const void *value);

/* Of a thread, by its PyThreadState: innermost frame first, at most `frames` of them. Nothing is visited
 * where the layout is not known. */
void vt_python_visit_locals(const void *thread, size_t frames, vt_python_local_visit visit, void *context);

/* The same for one frame object, of any thread, whether it runs, waits or has ended. */
void vt_python_visit_frame(const void *frame_object, vt_python_local_visit visit, void *context);

/* The same for a generator, a coroutine or an asynchronous generator that has not begun or waits; nothing for
 * one that runs or has ended. */
void vt_python_visit_generator(const void *generator, vt_python_local_visit visit, void *context);

#endif
