/* Why a request is wrong, in a sentence for people. */
#ifndef VT_ERROR_TEXT_H
#define VT_ERROR_TEXT_H

#include <stddef.h>

struct vt_error_text {
    char *text; /* where to write it */
    size_t bytes;
};

/* Writes the reason. Returns -EINVAL. */
int vt_fail(struct vt_error_text reason, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
