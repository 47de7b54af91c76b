#include "format/placement.h"

#include <string.h>

/* PyTorch's allocator: blocks up to 1 MiB are cut from segments of 2 MiB, larger ones from others, of which it cuts nothing
 * off that is not larger than 1 MiB. */
#define SMALL_BLOCK_BYTES (UINT64_C(1) << 20)
#define SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)
enum { POOL_SHIFT = 56 };

static uint32_t pool_of(unsigned device, bool small)
{
    return (device & 31) << 1 | small;
}

/* The first of `count` places that ends after `address`, or does not start before it. */
static uint32_t place_at(const struct vt_place *places, uint32_t count, uint64_t address)
{
    const struct vt_place *base = places;
    while (count > 1) {
        const uint32_t half = count / 2;
        base = base[half - 1].end <= address ? base + half : base;
        count -= half;
    }
    return (uint32_t)(base - places) + (count && base->end <= address);
}

static uint32_t fit_at(const struct vt_placement *placement, uint64_t size, uint64_t start)
{
    const struct vt_fit *base = placement->fits;
    uint32_t count = placement->hole_count;
    while (count > 1) {
        const uint32_t half = count / 2;
        const struct vt_fit *fit = &base[half - 1];
        base = (fit->size < size) | ((fit->size == size) & (fit->start < start)) ? base + half : base;
        count -= half;
    }
    return (uint32_t)(base - placement->fits) +
           (count && (base->size < size || (base->size == size && base->start < start)));
}

static struct vt_fit fit_of(const struct vt_place *hole)
{
    return (struct vt_fit){(uint64_t)hole->pool << POOL_SHIFT | (hole->end - hole->start), hole->start};
}

/* A hole is now another, which begins where none but it is. */
static void change_hole(struct vt_placement *placement, uint32_t at, uint64_t start, uint64_t end)
{
    struct vt_place *hole = &placement->holes[at];
    const struct vt_fit old = fit_of(hole);
    hole->start = start;
    hole->end = end;
    const struct vt_fit new = fit_of(hole);
    struct vt_fit *fits = placement->fits;
    const uint32_t from = fit_at(placement, old.size, old.start), to = fit_at(placement, new.size, new.start);
    if (to > from + 1) {
        memmove(fits + from, fits + from + 1, (to - 1 - from) * sizeof *fits);
        fits[to - 1] = new;
    } else if (to > from) {
        fits[from] = new;
    } else {
        memmove(fits + to + 1, fits + to, (from - to) * sizeof *fits);
        fits[to] = new;
    }
}

static void insert_hole(struct vt_placement *placement, uint32_t at, uint64_t start, uint64_t end, uint32_t pool)
{
    struct vt_place *holes = placement->holes;
    if (placement->hole_count == VT_PLACEMENT_MAXIMUM)
        return;
    const struct vt_place hole = {start, end, pool};
    const struct vt_fit fit = fit_of(&hole);
    const uint32_t to = fit_at(placement, fit.size, fit.start);
    memmove(holes + at + 1, holes + at, (placement->hole_count - at) * sizeof *holes);
    memmove(placement->fits + to + 1, placement->fits + to, (placement->hole_count - to) * sizeof fit);
    holes[at] = hole;
    placement->fits[to] = fit;
    placement->hole_count++;
}

static void remove_hole(struct vt_placement *placement, uint32_t at)
{
    struct vt_place *holes = placement->holes;
    const struct vt_fit fit = fit_of(&holes[at]);
    const uint32_t from = fit_at(placement, fit.size, fit.start);
    placement->hole_count--;
    memmove(holes + at, holes + at + 1, (placement->hole_count - at) * sizeof *holes);
    memmove(placement->fits + from, placement->fits + from + 1, (placement->hole_count - from) * sizeof fit);
}

/* The segment that holds all of start … end, or NULL. */
static const struct vt_place *segment_of(const struct vt_placement *placement, uint64_t start, uint64_t end)
{
    const uint32_t at = place_at(placement->segments, placement->segment_count, start);
    const struct vt_place *segment = &placement->segments[at];
    return at < placement->segment_count && segment->start <= start && end <= segment->end && start < end
               ? segment
               : NULL;
}

static void drop_segment(struct vt_placement *placement, uint32_t at)
{
    const struct vt_place segment = placement->segments[at];
    if (segment.start == placement->fresh)
        placement->fresh = 0;
    const uint32_t hole = place_at(placement->holes, placement->hole_count, segment.start);
    while (hole < placement->hole_count && placement->holes[hole].start < segment.end)
        remove_hole(placement, hole);
    placement->segment_count--;
    memmove(placement->segments + at, placement->segments + at + 1,
            (placement->segment_count - at) * sizeof segment);
}

void vt_placement_add_segment(struct vt_placement *placement, unsigned device, uint64_t start, uint64_t bytes)
{
    const uint64_t end = start + bytes;
    if (end <= start || bytes >> POOL_SHIFT)
        return;
    const uint32_t at = place_at(placement->segments, placement->segment_count, start);
    while (at < placement->segment_count && placement->segments[at].start < end)
        drop_segment(placement, at);
    if (placement->segment_count == VT_PLACEMENT_MAXIMUM)
        return;
    memmove(placement->segments + at + 1, placement->segments + at,
            (placement->segment_count - at) * sizeof *placement->segments);
    placement->segments[at] = (struct vt_place){start, end, pool_of(device, bytes == SMALL_SEGMENT_BYTES)};
    placement->segment_count++;
    placement->fresh = start;
}

void vt_placement_end_segment(struct vt_placement *placement, uint64_t start)
{
    const uint32_t at = place_at(placement->segments, placement->segment_count, start);
    if (at < placement->segment_count && placement->segments[at].start == start)
        drop_segment(placement, at);
}

/* What is left of a hole, or of a fresh segment. */
void vt_placement_take(struct vt_placement *placement, uint64_t start, uint64_t bytes)
{
    const uint64_t end = start + bytes;
    if (placement->fresh) {
        const struct vt_place *segment = segment_of(placement, start, end);
        if (segment && segment->start == placement->fresh) {
            insert_hole(placement, place_at(placement->holes, placement->hole_count, segment->start),
                        segment->start, segment->end, segment->pool);
            placement->fresh = 0;
        }
    }
    const uint32_t at = place_at(placement->holes, placement->hole_count, start);
    if (at == placement->hole_count || end <= start)
        return;
    const struct vt_place hole = placement->holes[at];
    if (hole.start > start || hole.end < end)
        return;
    if (hole.start == start && hole.end == end) {
        remove_hole(placement, at);
    } else if (hole.start == start) {
        change_hole(placement, at, end, hole.end);
    } else {
        change_hole(placement, at, hole.start, start);
        if (end < hole.end)
            insert_hole(placement, at + 1, end, hole.end, hole.pool);
    }
}

/* Joined with the holes next to it, of the same segment. */
void vt_placement_give(struct vt_placement *placement, uint64_t start, uint64_t bytes)
{
    uint64_t end = start + bytes;
    const struct vt_place *segment = segment_of(placement, start, end), *holes = placement->holes;
    if (!segment)
        return;
    if (segment->start == placement->fresh)
        placement->fresh = 0;
    const uint32_t at = place_at(holes, placement->hole_count, start);
    const bool before = at > 0 && holes[at - 1].end == start && start > segment->start,
               after = at < placement->hole_count && holes[at].start == end && end < segment->end;
    if (at < placement->hole_count && holes[at].start < end)
        return; /* free already, as far as we know */
    if (after)
        end = holes[at].end;
    if (before && after)
        remove_hole(placement, at);
    if (before)
        change_hole(placement, at - 1, holes[at - 1].start, end);
    else if (after)
        change_hole(placement, at, start, end);
    else
        insert_hole(placement, at, start, end, segment->pool);
}

uint64_t vt_placement_guess(const struct vt_placement *placement, unsigned device, uint64_t *bytes)
{
    const bool small = *bytes <= SMALL_BLOCK_BYTES;
    const uint64_t pool = (uint64_t)pool_of(device, small) << POOL_SHIFT;
    const uint32_t at = fit_at(placement, pool | (*bytes & ((UINT64_C(1) << POOL_SHIFT) - 1)), 0);
    uint64_t start = placement->fresh, size = 0;
    if (at < placement->hole_count && placement->fits[at].size >> POOL_SHIFT == pool >> POOL_SHIFT) {
        start = placement->fits[at].start;
        size = placement->fits[at].size ^ pool;
    } else if (start) {
        const struct vt_place *segment = segment_of(placement, start, start + 1);
        size = segment ? segment->end - start : 0;
    }
    if (!small && size > *bytes && size - *bytes <= SMALL_BLOCK_BYTES)
        *bytes = size;
    return start;
}

/* One place after `position`; false if it makes no sense, which no writer's does. */
static bool code_place(struct vt_place *place, uint64_t position, struct vt_coder *coder, vt_chance *chances,
                       bool reading)
{
    const uint64_t start = position + vt_code_number(coder, chances, place->start - position, reading);
    const uint64_t bytes =
        vt_code_number(coder, chances + VT_NUMBER_CHANCES, place->end - place->start, reading);
    place->start = start;
    place->end = start + bytes;
    return start >= position && place->end > start && !(bytes >> POOL_SHIFT);
}

void vt_placement_code(struct vt_placement *placement, struct vt_coder *coder, bool reading)
{
    vt_chance chances[4 * VT_NUMBER_CHANCES];
    struct vt_place place;
    uint64_t position = 0;
    for (size_t i = 0; i < 4 * VT_NUMBER_CHANCES; i++)
        chances[i] = VT_CHANCE_EVEN;
    if (reading)
        placement->segment_count = placement->hole_count = 0;
    uint64_t count = vt_code_number(coder, chances, placement->segment_count, reading);
    for (uint32_t i = 0; i < count && i < VT_PLACEMENT_MAXIMUM; i++) {
        place = placement->segments[i];
        bool good = code_place(&place, position, coder, chances, reading);
        place.pool = vt_code_tree(coder, chances + 2 * VT_NUMBER_CHANCES, 6, place.pool, reading);
        if (!good)
            return;
        position = place.end;
        if (reading)
            placement->segments[placement->segment_count++] = place;
    }
    count = vt_code_number(coder, chances, placement->hole_count, reading);
    position = 0;
    for (uint32_t i = 0; i < count && i < VT_PLACEMENT_MAXIMUM; i++) {
        place = placement->holes[i];
        if (!code_place(&place, position, coder, chances, reading))
            return;
        position = place.end;
        if (reading)
            vt_placement_give(placement, place.start, place.end - place.start);
    }
    placement->fresh = vt_code_number(coder, chances, placement->fresh, reading);
}
