/* Reads code objects: their names, line tables, and which of them run a module or an optimizer. Threads:
 * any. */
#ifndef VT_PYTHON_CODE_H
#define VT_PYTHON_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stacks/python_layout.h"

struct vt_python_code_view {
    /* The caller's buffer for file and name, if they are not ASCII; what does not fit is cut off. */
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

/* Describes a code object of the thread's last walk. Call it on the same thread, before anything runs that
 * could end its frames. The view's pointers live as long as the code object. False: not a code object; the
 * view is not filled. */
bool vt_python_describe_code(const void *code, struct vt_python_code_view *view);

/* The note of a code object (python_read.h): VT_SELF_NONE unless it is a module call or an optimizer step
 * whose `self` can be read. */
uint64_t vt_python_self_note(const struct vt_python *python, const char *code);

#endif
