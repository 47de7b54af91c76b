/* Causes of an out of memory: free memory of the framework's cache that the request could not get. */
#include "findings/causes_cache.h"

#include "base/allocate.h"
#include "base/format.h"
#include "findings/causes.h"
#include "format/allocator.h"
#include "trace/places.h"

#include <inttypes.h>
#include <stdlib.h>

#define LEAST_FRAGMENTS 10u /* of the GPU: a smaller cache in pieces is not a cause */

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

/* What the request could be served from: free bytes in segments of its stream and size that hold blocks, and
 * their largest hole. All of the cache if streams are not known. */
struct own_free {
    uint64_t kept_bytes, largest_hole_bytes;
};

static struct own_free find_own(const struct vt_cause_search *search)
{
    const struct vt_fragmentation *cache = &search->shortage->cache;
    const uint32_t own = place_of_request(search);
    struct own_free found = {cache->kept_bytes, cache->largest_hole_bytes};
    if (own)
        found = (struct own_free){0};
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
    if (!own || find_own(search).largest_hole_bytes >= asked)
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

/* The framework has emptied its cache before it gave up: what is left lies between blocks in use. */
void vt_cause_fragmentation(struct vt_cause_search *search)
{
    const struct vt_fragmentation *cache = &search->shortage->cache;
    const struct vt_oom *refusal = search->refusal;
    const struct own_free own = find_own(search);
    char largest[24];
    if (!refusal->of_framework || refusal->asked_bytes <= own.largest_hole_bytes ||
        search->found & UINT32_C(1) << VT_CAUSE_STREAMS ||
        cache->kept_bytes < search->shortage->missing_bytes ||
        cache->kept_bytes * LEAST_FRAGMENTS < search->gpu_bytes)
        return;
    const bool several = own.kept_bytes < search->shortage->missing_bytes;
    struct vt_cause *cause =
        vt_cause_add(search, VT_CAUSE_FRAGMENTATION, cache->kept_bytes, 0,
                     "fragmentation: enough reserved memory was free%s, but the largest free piece%s was %s",
                     several ? " and on several streams" : "", several ? " of the request's" : "",
                     vt_format_bytes(own.largest_hole_bytes, largest));
    if (cause && (!cache->has_pools || !cache->setting))
        cause->remedy = "Make the large block before the small ones that stay.";
}
