#include "format/holes.h"

#include <string.h>

#include "format/allocator.h"

enum { SIZE_BITS = 26, POOL_BITS = 5, DEVICES = 1 << (POOL_BITS - 1), LANES = 4 };
#define UNITS_MAXIMUM ((UINT64_C(1) << SIZE_BITS) - 1)

static unsigned pool_of(unsigned device, bool small)
{
    return device % DEVICES << 1 | small;
}

/* Sizes of different pools never compare equal or interleave; none is INT32_MAX. */
static int32_t size_in_pool(unsigned pool, uint64_t bytes)
{
    const uint64_t units = bytes / VT_TORCH_ROUND_BYTES + (bytes % VT_TORCH_ROUND_BYTES > 0);
    return (int32_t)(pool << SIZE_BITS | (units < UNITS_MAXIMUM ? (uint32_t)units : UNITS_MAXIMUM - 1));
}

/* ---- ranges ---- */

/* The index of the first range that ends after `address`. */
static uint32_t range_at(const struct vt_ranges_kept *ranges, uint64_t address)
{
    const uint64_t *base = ranges->end;
    uint32_t count = ranges->count;
    while (count > 1) {
        const uint32_t half = count / 2;
        base += half * (base[half - 1] <= address); /* without a branch, which could not be predicted */
        count -= half;
    }
    return (uint32_t)(base - ranges->end) + (count && *base <= address);
}

static unsigned pool_at(const struct vt_ranges_kept *ranges, uint32_t at)
{
    return (unsigned)ranges->size[at] >> SIZE_BITS;
}

static void set_range(struct vt_ranges_kept *ranges, uint32_t at, uint64_t start, uint64_t end)
{
    ranges->start[at] = start;
    ranges->end[at] = end;
    ranges->size[at] = size_in_pool(pool_at(ranges, at), end - start);
}

static void insert_range(struct vt_ranges_kept *ranges, uint32_t at, uint64_t start, uint64_t end,
                         unsigned pool)
{
    if (ranges->count == VT_HOLES_MAXIMUM)
        return;
    const uint32_t after = ranges->count++ - at;
    memmove(ranges->start + at + 1, ranges->start + at, after * sizeof *ranges->start);
    memmove(ranges->end + at + 1, ranges->end + at, after * sizeof *ranges->end);
    memmove(ranges->size + at + 1, ranges->size + at, after * sizeof *ranges->size);
    ranges->start[at] = start;
    ranges->end[at] = end;
    ranges->size[at] = size_in_pool(pool, end - start);
}

static void remove_range(struct vt_ranges_kept *ranges, uint32_t at)
{
    const uint32_t after = --ranges->count - at;
    memmove(ranges->start + at, ranges->start + at + 1, after * sizeof *ranges->start);
    memmove(ranges->end + at, ranges->end + at + 1, after * sizeof *ranges->end);
    memmove(ranges->size + at, ranges->size + at + 1, after * sizeof *ranges->size);
    ranges->size[ranges->count] = 0; /* so that the unused part of the last lanes never matches */
}

/* The index of the first of the smallest ranges of at least `size`; count if there is none. */
static uint32_t smallest_from(const struct vt_ranges_kept *ranges, int32_t size)
{
    typedef int32_t lanes __attribute__((vector_size(LANES * sizeof(int32_t))));
    const lanes wanted = {size, size, size, size}, step = {LANES, LANES, LANES, LANES};
    lanes least = {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX}, found = {0}, now = {0, 1, 2, 3};
    _Static_assert(VT_HOLES_MAXIMUM % LANES == 0, "whole lanes");
    for (uint32_t at = 0; at < ranges->count; at += LANES, now += step) {
        lanes some;
        memcpy(&some, ranges->size + at, sizeof some);
        const lanes better = (some >= wanted) & (some < least);
        least = (some & better) | (least & ~better);
        found = (now & better) | (found & ~better);
    }
    uint64_t best = (uint64_t)INT32_MAX << 32 | ranges->count;
    for (unsigned i = 0; i < LANES; i++) {
        const uint64_t other = (uint64_t)(uint32_t)least[i] << 32 | (uint32_t)found[i];
        best = other < best ? other : best;
    }
    return best >> 32 == INT32_MAX ? ranges->count : (uint32_t)best;
}

/* ---- segments ---- */

/* The index of the segment that contains start to end; segments.count if there is none. */
static uint32_t segment_of(struct vt_holes *known, uint64_t start, uint64_t end)
{
    struct vt_ranges_kept *segments = &known->segments;
    const uint32_t latest = segments->guessed; /* often it is the same again */
    if (latest >= segments->count || segments->start[latest] > start || segments->end[latest] <= start)
        segments->guessed = range_at(segments, start);
    const uint32_t at = segments->guessed;
    return at < segments->count && segments->start[at] <= start && end <= segments->end[at] && start < end
               ? at
               : segments->count;
}

/* The list of holes for this pool's kind of segment. */
static struct vt_ranges_kept *holes_of(struct vt_holes *known, unsigned pool)
{
    return &known->holes[pool & 1];
}

static void drop_segment(struct vt_holes *known, uint32_t at)
{
    const uint64_t start = known->segments.start[at], end = known->segments.end[at];
    struct vt_ranges_kept *holes = holes_of(known, pool_at(&known->segments, at));
    const uint32_t hole = range_at(holes, start);
    if (start == known->fresh)
        known->fresh = 0;
    while (hole < holes->count && holes->start[hole] < end)
        remove_range(holes, hole);
    remove_range(&known->segments, at);
}

void vt_holes_add_segment(struct vt_holes *known, unsigned device, uint64_t start, uint64_t bytes)
{
    const uint64_t end = start + bytes;
    struct vt_ranges_kept *segments = &known->segments;
    if (end <= start)
        return;
    const uint32_t at = range_at(segments, start);
    while (at < segments->count && segments->start[at] < end)
        drop_segment(known, at);
    if (segments->count < VT_HOLES_MAXIMUM)
        known->fresh = start;
    insert_range(segments, at, start, end, pool_of(device, bytes == VT_TORCH_SMALL_SEGMENT_BYTES));
}

void vt_holes_end_segment(struct vt_holes *known, uint64_t start)
{
    const uint32_t at = range_at(&known->segments, start);
    if (at < known->segments.count && known->segments.start[at] == start)
        drop_segment(known, at);
}

/* ---- blocks ---- */

/* Cuts the block out of its hole. False if there is no such hole. */
static bool take_from(struct vt_ranges_kept *holes, uint64_t start, uint64_t end)
{
    const bool guessed = holes->guessed < holes->count && holes->start[holes->guessed] == start;
    const uint32_t at = guessed ? holes->guessed : range_at(holes, start);
    if (at == holes->count || holes->start[at] > start || holes->end[at] < end)
        return false;
    const uint64_t hole_start = holes->start[at], hole_end = holes->end[at];
    if (hole_start == start && hole_end == end) {
        remove_range(holes, at);
    } else if (hole_start == start) {
        set_range(holes, at, end, hole_end);
    } else {
        set_range(holes, at, hole_start, start);
        if (end < hole_end)
            insert_range(holes, at + 1, end, hole_end, pool_at(holes, at));
    }
    return true;
}

void vt_holes_take(struct vt_holes *known, uint64_t start, uint64_t bytes)
{
    const uint64_t end = start + bytes;
    const bool small = bytes <= VT_TORCH_SMALL_BYTES;
    if (end <= start)
        return;
    if (known->fresh) {
        const uint32_t segment = segment_of(known, start, end);
        if (segment < known->segments.count && known->segments.start[segment] == known->fresh) {
            struct vt_ranges_kept *holes = holes_of(known, pool_at(&known->segments, segment));
            insert_range(holes, range_at(holes, known->fresh), known->fresh, known->segments.end[segment],
                         pool_at(&known->segments, segment));
            known->fresh = 0;
        }
    }
    if (!take_from(&known->holes[small], start, end))
        take_from(&known->holes[!small], start, end);
}

/* The freed block is merged with neighbouring holes of the same segment. */
void vt_holes_give(struct vt_holes *known, uint64_t start, uint64_t bytes)
{
    const uint64_t end = start + bytes;
    const uint32_t segment = segment_of(known, start, end);
    if (segment == known->segments.count)
        return;
    struct vt_ranges_kept *holes = holes_of(known, pool_at(&known->segments, segment));
    const uint32_t at = range_at(holes, start);
    if (known->segments.start[segment] == known->fresh)
        known->fresh = 0;
    if (at < holes->count && holes->start[at] < end)
        return; /* already free, as far as we know */
    const bool before = at > 0 && holes->end[at - 1] == start && start > known->segments.start[segment],
               after = at < holes->count && holes->start[at] == end && end < known->segments.end[segment];
    if (before && after) {
        set_range(holes, at - 1, holes->start[at - 1], holes->end[at]);
        remove_range(holes, at);
    } else if (before) {
        set_range(holes, at - 1, holes->start[at - 1], end);
    } else if (after) {
        set_range(holes, at, start, holes->end[at]);
    } else {
        insert_range(holes, at, start, end, pool_at(&known->segments, segment));
    }
}

uint64_t vt_holes_guess(struct vt_holes *known, unsigned device, uint64_t *bytes)
{
    const bool small = *bytes <= VT_TORCH_SMALL_BYTES;
    const unsigned pool = pool_of(device, small);
    struct vt_ranges_kept *holes = holes_of(known, pool);
    const uint32_t at = smallest_from(holes, size_in_pool(pool, *bytes));
    uint64_t start = known->fresh, size = 0;
    if (at < holes->count && pool_at(holes, at) == pool) {
        holes->guessed = at;
        start = holes->start[at];
        size = holes->end[at] - start;
    } else if (start) {
        const uint32_t segment = segment_of(known, start, start + 1);
        size = segment < known->segments.count ? known->segments.end[segment] - start : 0;
    }
    if (!small && size > *bytes && size - *bytes <= VT_TORCH_SMALL_BYTES)
        *bytes = size;
    return start;
}

/* ---- at the start of a chain ---- */

/* Codes one range after `position`. False if it makes no sense, which no writer's does. */
static bool code_range(struct vt_coder *coder, vt_chance *chances, uint64_t position, uint64_t *start,
                       uint64_t *end, bool reading)
{
    const uint64_t bytes = *end - *start;
    *start = position + vt_code_number(coder, chances, *start - position, reading);
    *end = *start + vt_code_number(coder, chances + VT_NUMBER_CHANCES, bytes, reading);
    return *start >= position && *end > *start;
}

void vt_holes_code(struct vt_holes *known, struct vt_coder *coder, bool reading)
{
    struct vt_ranges_kept *const all[] = {&known->segments, &known->holes[0], &known->holes[1]};
    vt_chance chances[3 * VT_NUMBER_CHANCES];
    for (size_t i = 0; i < 3 * VT_NUMBER_CHANCES; i++)
        chances[i] = VT_CHANCE_EVEN;
    if (reading)
        memset(known, 0, sizeof *known);
    for (unsigned list = 0; list < 3; list++) {
        struct vt_ranges_kept *ranges = all[list];
        const uint64_t count = vt_code_number(coder, chances, ranges->count, reading);
        uint64_t position = 0;
        for (uint32_t i = 0; i < count && i < VT_HOLES_MAXIMUM; i++) {
            uint64_t start = ranges->start[i], end = ranges->end[i];
            const bool good = code_range(coder, chances, position, &start, &end, reading);
            const unsigned pool =
                vt_code_tree(coder, chances + 2 * VT_NUMBER_CHANCES, POOL_BITS, pool_at(ranges, i), reading);
            if (!good)
                return;
            if (reading)
                insert_range(ranges, i, start, end, pool);
            position = end;
        }
    }
    known->fresh = vt_code_number(coder, chances, known->fresh, reading);
}
