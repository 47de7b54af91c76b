/* The first screen of the reports: 24 lines for a person. */
#ifndef VT_FIRST_SCREEN_H
#define VT_FIRST_SCREEN_H

#include "view/text/text.h"

/* What was checked and found good, or lost: "✓ no leak in 20 steps · ✓ no out-of-memory error · ✓ nothing
 * lost". What was found has a block of its own. */
void vt_text_status(struct vt_print *print);
/* The request that failed, why, what to do (oom.c). */
void vt_text_oom_block(struct vt_print *print);
/* True if a cause of this kind is in that block. */
bool vt_text_is_cause(const struct vt_report *report, const char *kind);
/* What leaks, where, what keeps it alive, what to do; at most `count` of them. Or why that cannot be judged.
 * (leaks.c) */
void vt_text_leaks(struct vt_print *print, const struct vt_device_report *device, size_t count);
/* The peak, or the moment of --at. */
void vt_text_peak(struct vt_print *print, const struct vt_device_report *device);
void vt_text_category_bars(struct vt_print *print, const struct vt_device_report *device, size_t most);

/* 1 % or more. */
bool vt_text_is_shown(uint64_t part, uint64_t whole);
/* The parts of a whole that are shown, as bars. */
struct vt_bar {
    const char *name;
    unsigned category; /* whose fill it has */
    uint64_t bytes;
};
void vt_text_bars(struct vt_print *print, const struct vt_bar *bars, size_t count, uint64_t whole);
/* Lines with their source, and modules with everything inside them. */
void vt_text_short_lines(struct vt_print *print, const struct vt_device_report *device, size_t rows);
void vt_text_parts(struct vt_print *print, const struct vt_device_report *device, size_t rows);
/* "where    train.py:21 forward  return self.head(…" */
void vt_text_place(struct vt_print *print, const char *label, const struct vt_place *place);
/* "step 3, forward" */
void vt_text_put_moment(FILE *out, const struct vt_report *report, uint64_t t_ns, uint32_t step,
                        uint8_t phase);
/* What to type next; NULL ends the commands. */
void vt_text_next(struct vt_print *print, const char *const *commands);

/* All of it, for one device. */
void vt_text_first_screen(struct vt_print *print, const struct vt_device_report *device);

#endif
