#include "findings/streams.h"

#include <inttypes.h>
#include <stdlib.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/format.h"
#include "findings/graph_pools.h"
#include "report/report.h"
#include "trace/places.h"

#define WORTH_PART 10u /* of the reserved bytes: what is less needs no advice */
#define FEW_STREAMS 4u /* a program may well need these: to load, to compute, to send */

/* Of one stream. */
struct use {
    uint64_t segment_bytes, free_bytes, kept_bytes;
    bool has_segment, has_block;
};

static void add_use(struct vt_fragmentation *found, const struct use *use, uint64_t *most)
{
    found->stream_count += use->has_segment;
    found->idle_stream_count += use->has_segment && !use->has_block;
    found->idle_stream_bytes += use->has_block ? 0 : use->segment_bytes;
    found->side_free_bytes += use->free_bytes;
    if (use->free_bytes > *most)
        *most = use->free_bytes;
    if (use->kept_bytes > found->stream_kept_bytes)
        found->stream_kept_bytes = use->kept_bytes;
}

bool vt_streams_are_many(const struct vt_fragmentation *found, uint64_t bytes)
{
    return found->stream_count > FEW_STREAMS && found->side_free_bytes >= bytes;
}

void vt_streams_find(const struct vt_report *report, int device_index, uint32_t event_index,
                     struct vt_fragmentation *found)
{
    if (report->trace->event_places)
        vt_graph_pools_mark(report, device_index, event_index, found);
    vt_streams_count(report->trace, found);
}

void vt_streams_count(const struct vt_trace *trace, struct vt_fragmentation *found)
{
    uint64_t most = 0;
    found->stream_kept_bytes = found->kept_bytes;
    if (!trace->event_places)
        return;
    struct use *uses = vt_allocate_zeros(trace->place_count, sizeof *uses);
    found->stream_kept_bytes = 0;
    for (size_t i = 0; i < found->segment_count; i++) {
        const struct vt_segment *segment = &found->segments[i];
        struct use *use = &uses[segment->place];
        if (segment->captured)
            continue;
        use->has_segment = true;
        use->has_block |= segment->block_count > 0;
        use->segment_bytes += segment->bytes;
        use->free_bytes += segment->free_bytes;
        use->kept_bytes += segment->block_count ? segment->free_bytes : 0;
    }
    for (size_t i = 1; i < trace->place_count; i++)
        add_use(found, &uses[i], &most);
    found->side_free_bytes -= most;
    free(uses);
}

void vt_streams_advise(struct vt_fragmentation *found)
{
    char bytes[24];
    if (!vt_streams_are_many(found, found->reserved_bytes / WORTH_PART))
        return;
    found->advice[found->advice_count++] = vt_print_text(
        "Use a few streams again instead of %" PRIu32
        ": %s is free on all but one of them, and free memory serves only requests on its own stream.",
        found->stream_count, vt_format_bytes(found->side_free_bytes, bytes));
}
