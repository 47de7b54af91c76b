/* Numbers and names for people. The first functions write to `text`, which they return. */
#ifndef VT_FORMAT_TEXT_H
#define VT_FORMAT_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "format/bytes_text.h"

/* "+18.00 MiB", "−512 B", "0 B". `text` holds at least 32 bytes. */
char *vt_format_change(uint64_t before, uint64_t after, char *text);

/* "850 ms", "21.4 s", "3 min 20 s", "2 h 5 min". `text` holds at least 32 bytes. */
char *vt_format_duration(uint64_t t_ns, char *text);

/* "61.4 %", "<0.1 %", "–" where there is no whole. `text` holds at least 16 bytes. */
char *vt_format_percent(uint64_t part, uint64_t whole, char *text);

/* "5,700". `text` holds at least 32 bytes. */
char *vt_format_count(uint64_t count, char *text);

/* A GPU's UUID as NVIDIA's tools write it: "GPU-73746172-…". `text` holds at least 41 bytes. */
char *vt_format_uuid(const uint8_t uuid[16], char *text);

/* "interrupted (Ctrl-C)", "killed by SIGKILL", of end_signal as in a trace's header. `text` holds at least 32
 * bytes. */
char *vt_format_end(uint32_t end_signal, char *text);

/* Of a drawing `columns` wide, how many columns this share takes, rounded down; a damaged trace's share may
 * be any. */
static inline int vt_columns_of(double share, int columns)
{
    return share <= 0 ? 0 : share >= 1 ? columns : (int)(share * columns + 1e-9);
}

/* A command without the folder of its program: a part of `command`. */
const char *vt_without_folder(const char *command);
/* Bytes of a file's name without ".vrt"; all of another name. */
size_t vt_stem_bytes(const char *name);

#endif
