/* The program's version. The file's version is separate: VT_FORMAT_VERSION in format.h. */
#ifndef VRAMTRACE_VERSION_H
#define VRAMTRACE_VERSION_H
#define VRAMTRACE_VERSION "0.1.0"
#endif
