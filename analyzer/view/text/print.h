/* Writing text: paragraphs, tables, colours, and one last filter that makes the whole safe and plain.
 *
 * Views compose in UTF-8 with colour marks; vt_print_finish turns the marks to escape sequences or to
 * nothing, letters to ASCII where the terminal is not UTF-8, and control characters that came from the trace
 * to '?'. */
#ifndef VT_PRINT_H
#define VT_PRINT_H

#include <stdio.h>

#include "base/format.h"
#include "base/utf8.h"
#include "view/text/style.h"

/* A colour mark is VT_MARK and one code byte. */
#define VT_MARK 0x0e
#define VT_RESET                                                                                             \
    "\x0e"                                                                                                   \
    "0"
#define VT_BOLD                                                                                              \
    "\x0e"                                                                                                   \
    "1"
#define VT_DIM                                                                                               \
    "\x0e"                                                                                                   \
    "2"
#define VT_ALARM                                                                                             \
    "\x0e"                                                                                                   \
    "3"
#define VT_MARK_INK 0x40   /* + category */
#define VT_MARK_PAPER 0x60 /* + category */

/* Where a view writes: a buffer in memory. */
struct vt_print {
    FILE *stream; /* NULL without memory */
    const struct vt_view_style *style;
    char *text;
    size_t bytes;
};
int vt_print_begin(struct vt_print *print, const struct vt_view_style *style);
int vt_print_finish(struct vt_print *print, FILE *out);

/* A paragraph, wrapped at spaces to the style's width but never between a number and its unit; the
 * first line starts with `first` spaces, the others with `indent`. */
void vt_print_paragraph(struct vt_print *print, int first, int indent, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Text from a trace as it is safe on a terminal: what could move the cursor becomes '?'. */
void vt_put_clean(const char *text, FILE *out);

/* Terminal columns of a UTF-8 text; colour marks take none. */
int vt_text_columns(const char *text);

/* VT_CUT_PARTS cuts the start where a part of a path, of a module's place or of a name begins, if one does.
 */
enum vt_cut { VT_CUT_END, VT_CUT_MIDDLE, VT_CUT_START, VT_CUT_PARTS };

/* `text` in at most `columns` terminal columns, with an ellipsis where something was cut; line breaks and
 * tabs become spaces. The caller frees it; NULL without memory. */
char *vt_shorten(const char *text, int columns, enum vt_cut cut);

struct vt_column {
    const char *title; /* "" = none */
    bool right;        /* aligned to the right */
    uint8_t cut;       /* enum vt_cut of what does not fit */
    int minimum;       /* > 0: gives room down to this many columns when the table is too wide */
    int drop;          /* > 0: left out altogether if it is still too wide; the largest first */
};

/* A table: the caller's columns, rows of cells. Out of memory shows in `failed`; nothing is printed then. */
struct vt_table {
    const struct vt_column *columns;
    int column_count;
    char **cells;
    size_t cell_count, capacity;
    bool failed;
};
void vt_table_begin(struct vt_table *table, const struct vt_column *columns, int column_count);
/* Cells come row by row. */
void vt_table_cell(struct vt_table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints titles (the first stands two columns further left: it is the section's) and rows, and frees all. */
void vt_table_print(struct vt_table *table, struct vt_print *print, int width);

#endif
