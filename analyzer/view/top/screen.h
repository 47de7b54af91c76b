/* `vramtrace top` on the whole screen of a terminal: one at a time, by one thread. */
#ifndef VT_VIEW_TOP_SCREEN_H
#define VT_VIEW_TOP_SCREEN_H

#include "report/top.h"
#include "view/text/style.h"

enum { VT_SCREEN_COLUMNS = 60, VT_SCREEN_LINES = 10 }; /* at least */

enum vt_screen_key {
    VT_KEY_NONE = -1, /* others: the character */
    VT_KEY_UP = 0x100,
    VT_KEY_DOWN,
    VT_KEY_LEFT,
    VT_KEY_RIGHT,
    VT_KEY_PAGE_UP,
    VT_KEY_PAGE_DOWN,
    VT_KEY_HOME,
    VT_KEY_END,
    VT_KEY_BACKSPACE,
    VT_KEY_ENTER,
    VT_KEY_ESCAPE,
    VT_KEY_RESIZE,
    VT_KEY_GONE, /* the terminal is */
};

struct vt_screen {
    size_t selected; /* row */
    enum vt_top_key sorted_by;
    bool paused, help;
    unsigned interval_s;
    const char *message;          /* "" = the keys are shown */
    const char *question, *typed; /* asked in the place of the message; NULL = nothing is */
    /* its own */
    size_t first; /* row on the screen */
    int rows;     /* that fit */
};

/* Takes the terminal. -ENOTTY if standard input or output is none, -ENOENT if the type of the terminal is not
 * known. */
int vt_screen_begin(bool colour);
/* Gives it back as it was. */
void vt_screen_end(void);
void vt_screen_draw(struct vt_screen *screen, const struct vt_top *top, const struct vt_view_style *style);
/* The next key; VT_KEY_NONE after so many milliseconds, after half a second, or after a signal. */
int vt_screen_key(int milliseconds);

#endif
