/* A stream that writes into memory. open_memstream() goes on where there is none; this one ends the command
 * (base/allocate.h). */
#ifndef VT_MEMORY_STREAM_H
#define VT_MEMORY_STREAM_H

#include <stdio.h>

/* After fflush() and fclose() *text is what was written, with a NUL behind it, and *bytes its length without;
 * the caller frees it. Both must stay where they are until fclose(). The stream may be set back to its
 * beginning. */
FILE *vt_memory_stream(char **text, size_t *bytes);

#endif
