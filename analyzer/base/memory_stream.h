/* A stream that writes into memory, as of open_memstream(); that one drops what there is no memory for, and
 * goes on. */
#ifndef VT_MEMORY_STREAM_H
#define VT_MEMORY_STREAM_H

#include <stdio.h>

/* After fflush() and fclose() *text is what was written, with a NUL behind it, and *bytes its length without;
 * the caller frees it, also after an error. Both must stay where they are until fclose(), which fails if
 * anything was lost. The stream may be set back to its beginning. NULL without memory. */
FILE *vt_memory_stream(char **text, size_t *bytes);

#endif
