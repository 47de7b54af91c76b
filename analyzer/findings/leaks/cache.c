/* Growth of reserved memory without growth of blocks, and when memory will run out. */
#include "findings/leaks/cache.h"

#include "base/allocate.h"
#include "base/format.h"
#include "findings/fragmentation.h"
#include "findings/leaks/growth.h"
#include "findings/leaks/lines.h"
#include "findings/streams.h"
#include "replay/walk.h"
#include "trace/frameworks.h"
#include "format/allocator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define FAR_STEPS 10000000u /* the limit of a forecast */
#define EXAMINED 16u        /* steps in which reserved memory grew, the last ones */

struct made {
    uint32_t event;
    uint64_t bytes;
};

struct walk {
    const struct vt_leak_finder *finder;
    struct vt_leak_change *segments, *free_bytes; /* by step: bytes of segments, of the cache, at its end */
    struct made *made;                            /* by step: the segment that was made last */
    uint32_t step;
    uint64_t segment_bytes, cached; /* before this event */
    uint32_t stack_id;              /* that last made a segment */
    uint64_t used;                  /* the most within the last whole step, without the cache */
};

static void end_step(struct walk *walk)
{
    walk->step++;
    walk->segments[walk->step] = (struct vt_leak_change){walk->step, walk->segment_bytes};
    walk->free_bytes[walk->step] = (struct vt_leak_change){walk->step, walk->cached};
}

static int visit(void *context, uint32_t event, const struct vt_counts *counts)
{
    struct walk *walk = context;
    const struct vt_leak_finder *finder = walk->finder;
    uint64_t used = counts->driver_bytes - counts->cached_bytes;
    while (walk->step + 1 < finder->step_count && event > finder->borders[walk->step])
        end_step(walk);
    if (event > finder->last_border)
        return 1;
    if (counts->segment_bytes > walk->segment_bytes) {
        walk->made[walk->step] = (struct made){event, counts->segment_bytes - walk->segment_bytes};
        walk->stack_id = finder->trace->events[event].stack_id;
    }
    walk->segment_bytes = walk->segments[walk->step].bytes = counts->segment_bytes;
    walk->cached = walk->free_bytes[walk->step].bytes = counts->cached_bytes;
    if (walk->step + 1 == finder->step_count && used > walk->used)
        walk->used = used;
    return 0;
}

/* The setting of the framework that made the segments, where it has one. */
static void add_setting(const struct vt_leak_finder *finder, uint32_t stack_id, struct vt_leak *leak)
{
    const bool known = stack_id < finder->trace->stack_count;
    const struct vt_cache *cache =
        known ? vt_cache_of(finder->trace, stack_id, vt_counts_blocks(finder->replay)) : NULL;
    if (cache && cache->setting)
        snprintf(leak->remedy, sizeof leak->remedy, "Set %s, or pad inputs to fewer distinct sizes.",
                 cache->setting);
}

/* As many bytes as the new segment has were free before, and could have served what it serves: small requests
 * and large ones have segments of their own. */
static bool had_room(const struct vt_leak_finder *finder, const struct made *made)
{
    if (!made->event)
        return false;
    struct vt_fragmentation found =
        vt_fragmentation_find(finder->replay, finder->device_index, made->event - 1);
    const bool small = found.has_pools && made->bytes <= VT_TORCH_SMALL_SEGMENT_BYTES;
    uint64_t free_bytes = 0;
    for (size_t i = 0; i < found.segment_count; i++)
        free_bytes += found.segments[i].small == small ? found.segments[i].free_bytes : 0;
    vt_fragmentation_free(&found);
    return free_bytes >= made->bytes;
}

/* Most of what is free serves other streams than the next one. */
static bool is_of_streams(const struct vt_leak_finder *finder, uint64_t cached, struct vt_leak *leak)
{
    struct vt_fragmentation found =
        vt_fragmentation_find(finder->replay, finder->device_index, finder->last_border);
    char bytes[24];
    vt_streams_count(finder->trace, &found);
    const bool many = vt_streams_are_many(&found, cached / 2);
    if (many)
        snprintf(leak->why, sizeof leak->why,
                 "Reserved memory grows with the number of streams: %" PRIu32
                 " have some, and %s is free on all but one of them.",
                 found.stream_count, vt_format_bytes(found.side_free_bytes, bytes));
    vt_fragmentation_free(&found);
    return many;
}

static void add_cache(struct vt_leak_finder *finder, const struct walk *walk, const struct vt_growth *growth)
{
    uint64_t reserved = growth->bytes_per_step, more, blocks = finder->bounded_per_step;
    uint32_t grown = 0, holes = 0;
    for (size_t i = 0; i < finder->leaks->count; i++)
        blocks += finder->leaks->items[i].is_leak ? 0 : finder->leaks->items[i].bytes_per_step;
    blocks += finder->leaks->bytes_per_step;
    if (blocks * 5 >= reserved * 4)
        return; /* the blocks need what is reserved */
    more = reserved - blocks;
    for (uint32_t step = finder->step_count - 1; step >= growth->first_step && grown < EXAMINED; step--)
        if (walk->segments[step].bytes > walk->segments[step - 1].bytes) {
            grown++;
            holes += had_room(finder, &walk->made[step]);
        }
    bool fragments = holes * 2 > grown;
    struct vt_leak *leak = vt_leak_add(finder, fragments ? VT_LEAK_FRAGMENTATION : VT_LEAK_CACHE);
    leak->category = VT_CATEGORY_CACHED;
    const bool of_streams = fragments && is_of_streams(finder, walk->cached, leak);
    if (of_streams)
        vt_leak_set_verdict(leak, VT_LEAK_STREAMS);
    else if (fragments)
        add_setting(finder, walk->stack_id, leak);
    if (walk->stack_id < finder->trace->stack_count) {
        leak->stack_id = walk->stack_id;
        vt_leak_add_lines(finder, leak, walk->stack_id, VT_LEAK_LINES);
    }
    leak->bytes = walk->cached;
    leak->bytes_per_step = more;
    leak->first_step = growth->first_step;
    leak->last_step = growth->last_step;
    if (of_streams)
        return;
    snprintf(leak->why, sizeof leak->why,
             "Reserved memory grows%s. In %" PRIu32 " of the last %" PRIu32
             " steps in which it grew, enough of it was free, %s.",
             blocks ? " faster than allocated memory" : ", allocated memory does not", holes, grown,
             fragments ? "but not in one piece" : "so most of it was needed at some point");
}

static void forecast(struct vt_leak_finder *finder, uint64_t used)
{
    struct vt_leaks *leaks = finder->leaks;
    uint64_t total = 0;
    for (size_t i = 0; i < finder->trace->device_count; i++)
        if (finder->trace->devices[i].index == finder->device_index)
            total = finder->trace->devices[i].total_bytes;
    if (total == 0 || leaks->bytes_per_step == 0)
        return;
    uint64_t steps = total > used ? (total - used) / leaks->bytes_per_step : 0;
    if (steps > FAR_STEPS)
        return;
    for (size_t i = 0; i < leaks->count; i++)
        if (vt_leak_fills_device(&leaks->items[i]))
            leaks->items[i].forecast_step = finder->step_count - 1 + (uint32_t)steps;
}

static bool series_repeats(const struct vt_leak_finder *finder, const struct vt_leak_change *series,
                           struct vt_growth *growth)
{
    return vt_growth_repeats(series, finder->step_count, 1, finder->step_count - 1,
                             finder->attribution->concurrent_calls, growth);
}

void vt_leak_cache_find(struct vt_leak_finder *finder)
{
    struct walk walk = {.finder = finder};
    const struct vt_replay_visitor visitor = {.visit = visit, .context = &walk};
    struct vt_growth growth;
    walk.segments = vt_allocate_zeros((size_t)finder->step_count + 1, sizeof *walk.segments);
    walk.free_bytes = vt_allocate_zeros((size_t)finder->step_count + 1, sizeof *walk.free_bytes);
    walk.made = vt_allocate_zeros((size_t)finder->step_count + 1, sizeof *walk.made);
    vt_replay_walk(finder->replay, finder->device_index, &visitor);
    while (walk.step + 1 < finder->step_count)
        end_step(&walk);
    if (series_repeats(finder, walk.free_bytes, &growth) && series_repeats(finder, walk.segments, &growth))
        add_cache(finder, &walk, &growth);
    forecast(finder, walk.used);
    free(walk.segments);
    free(walk.free_bytes);
    free(walk.made);
}
