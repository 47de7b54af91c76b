#include "base/error_text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int vt_fail(struct vt_error_text reason, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reason.text, reason.bytes, format, arguments);
    va_end(arguments);
    return -EINVAL;
}
