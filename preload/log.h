/* The recorder's messages on stderr: one write, one line, prefixed "vramtrace: ". None with
 * VRAMTRACE_QUIET=1, and none if descriptor 2 is no longer the same file as when the process began: it may
 * be one of the host's files by now. */
#ifndef VT_LOG_H
#define VT_LOG_H

#include <stdbool.h>

/* Called when the library is loaded. */
void vt_log_start(bool quiet);

__attribute__((format(printf, 1, 2))) void vt_log(const char *format, ...);

#endif
