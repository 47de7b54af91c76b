/* Bytes for people, the same in the recorder's last line as in reports. */
#ifndef VT_BYTES_TEXT_H
#define VT_BYTES_TEXT_H

#include <stdint.h>

/* "38.2 GiB", "5 MiB", "512 B": the largest binary unit, three significant digits, none behind the point of a
 * whole number. `text` holds at least 24 bytes. Returns it. */
char *vt_format_bytes(uint64_t bytes, char *text);

#endif
