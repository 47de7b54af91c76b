#include "diagnose/streams.h"

#include <inttypes.h>
#include <stdlib.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/format.h"
#include "diagnose/causes.h"
#include "diagnose/graph_pools.h"
#include "format/allocator.h"
#include "report/report.h"
#include "trace/places.h"

#define WORTH_PART 10u /* of the reserved bytes: what is less needs no advice */
#define FEW_STREAMS 2u /* a program may well need a second one */

/* ---- A cache ---- */

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

void vt_streams_find(const struct vt_report *report, int device_index, uint32_t event_index,
                     struct vt_fragmentation *found)
{
    const struct vt_trace *trace = report->trace;
    uint64_t most = 0;
    found->stream_kept_bytes = found->kept_bytes;
    if (!trace->event_places)
        return;
    vt_graph_pools_mark(report, device_index, event_index, found);
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
    if (found->stream_count <= FEW_STREAMS || found->side_free_bytes * WORTH_PART <= found->reserved_bytes)
        return;
    found->advice[found->advice_count++] = vt_print_text(
        "Use a few streams again instead of %" PRIu32
        ": %s is free on all but one of them, and free memory serves only requests on its own stream.",
        found->stream_count, vt_format_bytes(found->side_free_bytes, bytes));
}

/* ---- Out of memory ---- */

static uint32_t place_of_request(const struct vt_cause_search *search)
{
    return search->refusal->of_framework ? vt_trace_place(search->trace, search->refusal->event_index) : 0;
}

/* Whether the request's size is of the segment's pool. */
static bool serves_size(const struct vt_cause_search *search, const struct vt_segment *segment)
{
    return !search->shortage->cache.has_pools ||
           segment->small == (search->refusal->asked_bytes <= VT_TORCH_SMALL_BYTES);
}

struct vt_own_free vt_streams_own(const struct vt_cause_search *search)
{
    const struct vt_fragmentation *cache = &search->shortage->cache;
    const uint32_t own = place_of_request(search);
    struct vt_own_free found = {cache->kept_bytes, cache->largest_hole_bytes};
    if (own)
        found = (struct vt_own_free){0};
    for (size_t i = 0; i < cache->segment_count && own; i++) {
        const struct vt_segment *segment = &cache->segments[i];
        if (segment->place != own || segment->captured || !serves_size(search, segment))
            continue;
        found.kept_bytes += segment->block_count ? segment->free_bytes : 0;
        if (segment->largest_hole_bytes > found.largest_hole_bytes)
            found.largest_hole_bytes = segment->largest_hole_bytes;
    }
    return found;
}

/* Only if one free piece is large enough: then it is certain that the request would have succeeded there. */
void vt_cause_streams(struct vt_cause_search *search)
{
    const struct vt_fragmentation *cache = &search->shortage->cache;
    const uint64_t asked = search->refusal->asked_bytes;
    const uint32_t own = place_of_request(search);
    uint64_t bytes = 0, largest = 0;
    uint32_t streams = 0;
    char piece[24];
    if (!own || vt_streams_own(search).largest_hole_bytes >= asked)
        return;
    uint8_t *seen = vt_allocate_zeros(search->trace->place_count, sizeof *seen);
    for (size_t i = 0; i < cache->segment_count; i++) {
        const struct vt_segment *segment = &cache->segments[i];
        if (!segment->place || segment->place == own || segment->captured || !segment->free_bytes ||
            !serves_size(search, segment))
            continue;
        bytes += segment->free_bytes;
        streams += !seen[segment->place];
        seen[segment->place] = 1;
        if (segment->largest_hole_bytes > largest)
            largest = segment->largest_hole_bytes;
    }
    free(seen);
    struct vt_cause *cause =
        largest < asked ? NULL
                        : vt_cause_add(search, VT_CAUSE_STREAMS, bytes, 0,
                                       "memory is free, but on %" PRIu32
                                       " other stream%s than the request's, in pieces of up to %s",
                                       streams, streams == 1 ? "" : "s", vt_format_bytes(largest, piece));
    if (cause)
        cause->suffices = true;
}
