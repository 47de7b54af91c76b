/* Progress as a line of text. */
#ifndef VT_PROGRESS_TEXT_H
#define VT_PROGRESS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/progress.h"

#define VT_PROGRESS_BYTES 256

/* "replaying events ███████▌······· 52 %, 2.1 M events/s, 3 s left" in fewer than `columns` columns; parts
 * that do not fit are left out. `elapsed_ns` since all work began, `work_ns` since this work did. Returns its
 * length in bytes. */
size_t vt_progress_text(const struct vt_progress *progress, uint64_t elapsed_ns, uint64_t work_ns,
                        int columns, bool unicode, char text[VT_PROGRESS_BYTES]);

#endif
