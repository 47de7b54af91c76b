/* Line numbers of CPython code objects, from the line tables that a trace keeps. */
#ifndef VT_PYTHON_LINES_H
#define VT_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* The line that CPython 3.<python_minor> gives the instruction `instruction_offset` bytes into a code object
 * whose line table is `table` and whose first line is `first_line`. An offset below 0 (the frame has not
 * begun) has the first line. -1: the instruction has no line, the table does not reach it or makes no sense,
 * or the version is not 3.9 to 3.15. Tables are untrusted: any bytes are fine. */
int32_t vt_python_line(int python_minor, const uint8_t *table, size_t bytes, int32_t first_line,
                       int32_t instruction_offset);

#endif
