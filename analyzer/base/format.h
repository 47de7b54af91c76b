/* How numbers, names and categories look, in every view. */
#ifndef VT_FORMAT_VIEW_H
#define VT_FORMAT_VIEW_H

#include "report/report.h"

/* "850 ms", "21.4 s", "3 min 20 s", "2 h 5 min". `text` holds at least 32 bytes. */
char *vt_format_duration(uint64_t t_ns, char *text);

/* "+18.00 MiB", "−512 B", "0 B". `text` holds at least 32 bytes. */
char *vt_format_change(uint64_t before, uint64_t after, char *text);

/* "61.4 %", "<0.1 %", "–" where there is no whole. `text` holds at least 16 bytes. */
char *vt_format_percent(uint64_t part, uint64_t whole, char *text);

/* "5,700". `text` holds at least 32 bytes. */
char *vt_format_count(uint64_t count, char *text);

/* Terminal columns of a UTF-8 text; colour marks (print.h) take none. */
int vt_text_columns(const char *text);

/* VT_CUT_PARTS cuts the start where a part of a path, of a module's place or of a name begins, if one does.
 */
enum vt_cut { VT_CUT_END, VT_CUT_MIDDLE, VT_CUT_START, VT_CUT_PARTS };

/* `text` in at most `columns` terminal columns, with an ellipsis where something was cut; line breaks and
 * tabs become spaces. The caller frees it; NULL without memory. */
char *vt_shorten(const char *text, int columns, enum vt_cut cut);

/* A path as a person names it: relative to the trace's working folder; else, in an installed package, from
 * the package's name on; else the last two parts. Points into `path`. */
const char *vt_short_path(const struct vt_trace *trace, const char *path);

/* The looks of a category, the same in all views. */
struct vt_category_style {
    const char *many;  /* in a sentence: "activations" */
    const char *label; /* in a table: "optimizer state" */
    const char *fill;  /* one column; tells categories apart without colour */
    char ascii_fill;
    uint8_t colour; /* of the terminal's 256 */
    const char *css;
};
const struct vt_category_style *vt_category_style(unsigned category);

/* The order in which categories are stacked in a picture, from the bottom; cached, context and pinned host
 * memory are not part of it. */
extern const uint8_t vt_stacked_categories[];
extern const size_t vt_stacked_category_count;

/* Bytes in use: what a device's categories hold without the cache and the context. */
uint64_t vt_used_bytes(const uint64_t categories[VT_CATEGORY_COUNT]);

#endif
