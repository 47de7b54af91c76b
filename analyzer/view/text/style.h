/* How a view writes. */
#ifndef VT_STYLE_H
#define VT_STYLE_H

#include <stdbool.h>

struct vt_view_style {
    bool colour;
    bool unicode;
    int width;  /* columns of text */
    int height; /* rows of the terminal, 0 = not known */
    int by;     /* enum vt_by, -1 = the report's usual tables */
    int top;    /* rows of each table and of each list in JSON; 0 = the usual number, in JSON all */
    bool all;   /* steps: each in a row of its own; annotate: the whole file */
    bool full;  /* everything after the first screen */
    bool brief; /* no pictures, and no hints for the command line */
};

#endif
