/* Bytes for people. */
#ifndef VT_UNITS_H
#define VT_UNITS_H

#include <stdint.h>

/* "38.21 GiB", "512 B": the largest binary unit, two decimals. `text` holds at least 24 bytes. */
char *vt_format_bytes(uint64_t bytes, char *text);

#endif
