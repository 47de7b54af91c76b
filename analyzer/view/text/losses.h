/* What a trace lacks, in words. */
#ifndef VT_LOSSES_H
#define VT_LOSSES_H

#include "report/report.h"

/* "12 events and 0 definitions were lost", "the process was killed or still runs"; false if the trace has
 * all. */
bool vt_losses_tell(const struct vt_trace *trace, char *text, size_t bytes);

#endif
