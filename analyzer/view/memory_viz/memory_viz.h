/* The snapshot of PyTorch's caching allocator, as torch.cuda.memory._snapshot() makes it, pickled: for
 * pytorch.org/memory_viz and other tools that read such snapshots. What is not PyTorch's own:
 *
 *  - Device memory that no caching allocator owns (of libraries, the context) is there too: each such allocation as a
 *    segment with one block. Their segments have a key "vramtrace_kind" (driver, context, pooled); without
 *    those, the sums are PyTorch's counters. What has no address has one from 2^48 on.
 *  - Actions and blocks have a "category", by which the viewer colours them; "user_metadata" names the owner or module.
 *  - A free is requested and completed at once, and all streams are 0: a trace knows neither.
 *  - Phases and marks are external annotations. */
#ifndef VT_MEMORY_VIZ_H
#define VT_MEMORY_VIZ_H

#include <stdio.h>

#include "report/tables.h"

/* What each device had at the instant that the report shows, and all that happened until then. The report
 * needs fragmentation (VT_FIND_FRAGMENTATION). 0 or -ENOMEM; failed writes show in the stream. */
int vt_memory_viz_write(const struct vt_report *report, struct vt_tables *tables, FILE *out);

#endif
