#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void vt_log(const char *format, ...)
{
    char line[2048] = "vramtrace: ";
    const size_t prefix = 11;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t total = prefix + (size_t)length;
    if (total > sizeof line - 2)
        total = sizeof line - 2;
    line[total] = '\n';
    if (write(STDERR_FILENO, line, total + 1) < 0)
        return; /* nobody to tell */
}
