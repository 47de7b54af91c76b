/* What the first screens are made of. */
#ifndef VT_SHORT_TABLES_H
#define VT_SHORT_TABLES_H

#include "view/text/text.h"

/* 1 % or more of the whole: smaller parts are left out. */
bool vt_text_is_shown(uint64_t part, uint64_t whole);
/* "step 3, forward" */
void vt_text_put_moment(FILE *out, const struct vt_report *report, uint64_t t_ns, uint32_t step,
                        uint8_t phase);
/* "where    train.py:21 forward  return self.head(…" */
void vt_text_place(struct vt_print *print, const char *label, const struct vt_place *place);

/* The parts of a whole that are shown, as bars. */
struct vt_bar {
    const char *name;
    unsigned category; /* whose fill it has */
    uint64_t bytes;
};
/* A bar for each category that has bytes, largest first, at most `most`. Returns how many. */
size_t vt_text_bars_of(const uint64_t categories[VT_CATEGORY_COUNT], struct vt_bar *bars, size_t most);
void vt_text_bars(struct vt_print *print, const struct vt_bar *bars, size_t count, uint64_t whole);
/* Lines with their source, and modules with everything inside them. */
void vt_text_short_lines(struct vt_print *print, const struct vt_device_report *device, size_t rows);
void vt_text_parts(struct vt_print *print, const struct vt_device_report *device, size_t rows);
/* The last tables of a screen, each of a title and some rows, share the lines that are left: they lose rows
 * in turn, the longest first; with none left, a table has no title either. Does nothing with --top or --full.
 */
#define VT_SCREEN_LINES 23 /* of 24: one is for the prompt */
void vt_text_share_lines(struct vt_print *print, int *rows, int count);
/* What to type next; NULL ends the commands. */
void vt_text_next(struct vt_print *print, const char *const *commands);

#endif
