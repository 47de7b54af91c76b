/* Shows how far the work is, on one line of the terminal that stderr is. */
#ifndef VT_COMMAND_PROGRESS_H
#define VT_COMMAND_PROGRESS_H

#include <stdbool.h>

/* From here on a terminal shows the progress (base/progress.h) of work that takes over a second. `new_trace`:
 * the clock starts again. */
void vt_progress_begin(bool new_trace);
/* Erases it. */
void vt_progress_end(void);

#endif
