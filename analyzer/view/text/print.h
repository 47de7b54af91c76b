/* Writing text: paragraphs, tables, colours, and one last filter that makes the whole safe and plain.
 *
 * Views compose in UTF-8 with colour marks; vt_print_finish turns the marks to escape sequences or to
 * nothing, letters to ASCII where the terminal is not UTF-8, and control characters that came from the trace
 * to '?'. */
#ifndef VT_PRINT_H
#define VT_PRINT_H

#include <stdio.h>

#include "base/allocate.h"
#include "base/format.h"
#include "base/utf8.h"
#include "base/words.h"
#include "view/text/style.h"

struct vt_report;

/* One line for each paragraph, however long, without colour. */
extern const struct vt_view_style vt_plain_style;

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

/* A category's label in its colour: printf(VT_LABEL, VT_LABEL_OF(category)). */
#define VT_LABEL "\x0e%c%s" VT_RESET
#define VT_LABEL_OF(category) VT_MARK_INK + (int)(category), vt_category_label(category)

/* Numbers as text that lives to the end of the block. */
#define VT_BYTES(bytes) vt_format_bytes(bytes, (char[32]){0})
#define VT_CHANGE(before, after) vt_format_change(before, after, (char[32]){0})
#define VT_COUNT(count) vt_format_count(count, (char[32]){0})
#define VT_DURATION(t_ns) vt_format_duration(t_ns, (char[32]){0})
#define VT_PERCENT(part, whole) vt_format_percent(part, whole, (char[32]){0})

struct vt_category_style {
    const char *fill; /* one column; tells categories apart without colour */
    char ascii_fill;
    uint8_t colour; /* of the terminal's 256 */
};
const struct vt_category_style *vt_category_style(unsigned category);
/* One cell of a picture: the colour of `category`; without colour, the fill of the category `shape`. */
void vt_put_fill(FILE *stream, const struct vt_view_style *style, unsigned category, unsigned shape);
/* VT_CATEGORY_UNKNOWN if all are 0. */

/* Where a view writes. */
struct vt_print {
    FILE *stream;    /* the page */
    FILE *paragraph; /* the next paragraph, until vt_end_paragraph */
    const struct vt_view_style *style;
    const struct vt_report *report; /* NULL: the page is of several */
    /* private to print.c */
    char *text, *paragraph_text;
    size_t bytes, paragraph_bytes;
};
/* *print must stay where it is. */
void vt_print_begin(struct vt_print *print, const struct vt_view_style *style,
                    const struct vt_report *report);
/* Writes the page to `out` and frees it. */
void vt_print_finish(struct vt_print *print, FILE *out);

/* Prints what was written to print->paragraph, wrapped at spaces to the style's width but never between a
 * number and its unit; the first line starts with `first` spaces, the others with `indent`. */
void vt_end_paragraph(struct vt_print *print, int first, int indent);
/* The same for a whole paragraph. */
void vt_print_paragraph(struct vt_print *print, int first, int indent, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* How many lines the page has so far. */
int vt_print_lines(struct vt_print *print);

/* "  fix      …": the paragraph wrapped beside a label. */
#define VT_LABEL_COLUMNS 11
void vt_end_labelled(struct vt_print *print, const char *label);
void vt_print_labelled(struct vt_print *print, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Text from a trace as it is safe on a terminal: what could move the cursor becomes '?'. */
void vt_put_clean(const char *text, FILE *out);

/* The same as one word of a shell's command, in quotes if it needs them. */
void vt_put_word(const char *text, FILE *out);

/* Terminal columns of a UTF-8 text; colour marks take none. */
int vt_text_columns(const char *text);

/* VT_CUT_PARTS cuts the start where a part of a path, of a module's place or of a name begins, if one does.
 */
enum vt_cut { VT_CUT_END, VT_CUT_MIDDLE, VT_CUT_START, VT_CUT_PARTS };

/* `text` in at most `columns` terminal columns, with an ellipsis where something was cut; line breaks and
 * tabs become spaces. The caller frees it. */
char *vt_shorten(const char *text, int columns, enum vt_cut cut);

struct vt_print_column {
    const char *title; /* "" = none */
    bool right;        /* aligned to the right */
    uint8_t cut;       /* enum vt_cut of what does not fit */
    int minimum;       /* > 0: shrinks down to this many columns when the table is too wide */
    int drop;          /* > 0: left out altogether if it is still too wide; the largest first */
};

#endif
