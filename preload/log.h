/* What the shim says on stderr: one write, one line, prefixed "vramtrace: ". */
#ifndef VT_LOG_H
#define VT_LOG_H

__attribute__((format(printf, 1, 2))) void vt_log(const char *format, ...);

#endif
