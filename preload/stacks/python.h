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

struct vt_python_stack {
    /* Of all frames: two walks that differ in code, instruction or self differ in it, also where another code
     * object got the address of one that died. */
    uint64_t hash;
    size_t frames;         /* 0 without Python */
    bool truncated;        /* there were more than the capacity */
    bool unreadable;       /* the chain is not valid from there on */
    uintptr_t entry_frame; /* from 3.12 on the frame that the innermost evaluation keeps on the C stack, for
                              vt_native_walk; 0 = none seen */
};

/* Walks the calling thread's frames, innermost first, and stores at most `capacity` of them. */
void vt_python_walk(struct vt_raw_python_frame *frames, size_t capacity, struct vt_python_stack *stack);

/* A thread's latest walk. In the next one most outer frames are still the same: they are compared, not read
 * anew. Zero at first; of one thread at a time. */
enum { VT_RECENT_FRAMES = 128 };
struct vt_recent_frame {
    const char *at, *previous, *code;
    uint64_t instruction, first_instruction, guard; /* as read from the frame and from its code (python.c) */
    uintptr_t self;
    uint16_t self_note;
    uint8_t owner, state;
    uint32_t frames;       /* from here outward */
    uint64_t term;         /* its own part of the hash */
    uint64_t hash;         /* from here outward */
    uintptr_t entry_frame; /* the innermost, from here outward */
};
struct vt_recent_frames {
    size_t count;
    struct vt_recent_frame known[VT_RECENT_FRAMES]; /* outermost first */
    struct vt_recent_frame fresh[VT_RECENT_FRAMES]; /* of the walk that goes on, innermost first */
};

/* What vt_python_walk with that capacity would tell, without storing frames. `recent`: the thread's, or NULL.
 */
void vt_python_hash(struct vt_recent_frames *recent, size_t capacity, struct vt_python_stack *stack);

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
 * All are borrowed. False ends the visit. */
struct vt_python_local {
    const void *file, *function; /* Python strings; of 3.11 on the function's qualified name */
    const void *name;            /* a Python string */
    const void *value;           /* a Python object */
};
typedef bool vt_python_local_visit(void *context, const struct vt_python_local *local);

/* Of a thread, by its PyThreadState: innermost frame first, at most `frames` of them. Nothing is visited
 * where the layout is not known. */
void vt_python_visit_locals(const void *thread, size_t frames, vt_python_local_visit visit, void *context);

/* The same for one frame object, of any thread, whether it runs, waits or has ended. */
void vt_python_visit_frame(const void *frame_object, vt_python_local_visit visit, void *context);

/* The same for a generator, a coroutine or an asynchronous generator that has not begun or waits; nothing for
 * one that runs or has ended. */
void vt_python_visit_generator(const void *generator, vt_python_local_visit visit, void *context);

#endif
