/* Lines of source around places. */
#ifndef VT_SOURCES_H
#define VT_SOURCES_H

#include "report/places.h"
#include "view/html/bytes.h"
#include "view/html/intern.h"

/* {"12":{"141":"    return x","142":…}}: by the number of a file's text, its lines around each of `rows`, whose
 * second and third word are the file's text and the line. Files that are not here, or are newer than the trace,
 * are left out. */
void vt_sources_write(const struct vt_word_rows *rows, const struct vt_texts *texts, const struct vt_trace *trace,
                      struct vt_bytes *json);

#endif
