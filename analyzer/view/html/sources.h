/* Lines of source around places. */
#ifndef VT_SOURCES_H
#define VT_SOURCES_H

#include "report/places.h"

#include <stdio.h>

struct vt_spot {
    const char *file;
    uint32_t line;
};

/* {"model.py":{"141":"    return x","142":…}}: of each file its lines around the spots, which are sorted for
 * that. Files that are not here, or are newer than the trace, are left out. */
void vt_sources_write(struct vt_spot *spots, size_t count, const struct vt_trace *trace, FILE *json);

#endif
