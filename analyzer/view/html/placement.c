#include "view/html/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/index.h"

/* ---- Sorted arrays ---- */

static int compare_hole(const void *item, const void *key)
{
    return vt_order(((const struct vt_place_hole *)item)->start, *(const uint64_t *)key);
}

static int compare_fit(const void *item, const void *key)
{
    const struct vt_place_fit *fit = item, *wanted = key;

    return 2 * vt_order(fit->size, wanted->size) + vt_order(fit->start, wanted->start);
}

/* The first hole that does not start before `start`. */
static size_t hole_from(const struct vt_placement *placement, uint64_t start)
{
    return vt_lower_bound(placement->holes, placement->count, sizeof *placement->holes, &start, compare_hole);
}

static size_t fit_from(const struct vt_placement *placement, uint32_t pool, struct vt_place_fit wanted)
{
    return vt_lower_bound(placement->fits[pool], placement->fit_counts[pool], sizeof wanted, &wanted,
                          compare_fit);
}

static void insert(struct vt_placement *placement, struct vt_place_hole hole)
{
    struct vt_place_fit fit = {hole.end - hole.start, hole.start}, **fits = &placement->fits[hole.pool];
    size_t at, *count = &placement->fit_counts[hole.pool];

    if (!placement->holes)
        placement->holes = malloc(VT_MOST_HOLES * sizeof *placement->holes);
    if (!*fits)
        *fits = malloc(VT_MOST_HOLES * sizeof **fits);
    if (!placement->holes || !*fits)
        placement->failed = true;
    if (placement->failed || placement->count == VT_MOST_HOLES)
        return;
    at = hole_from(placement, hole.start);
    memmove(placement->holes + at + 1, placement->holes + at, (placement->count++ - at) * sizeof hole);
    placement->holes[at] = hole;
    at = fit_from(placement, hole.pool, fit);
    memmove(*fits + at + 1, *fits + at, ((*count)++ - at) * sizeof fit);
    (*fits)[at] = fit;
}

static struct vt_place_hole extract(struct vt_placement *placement, size_t index)
{
    struct vt_place_hole hole = placement->holes[index];
    struct vt_place_fit *fits = placement->fits[hole.pool];
    size_t at = fit_from(placement, hole.pool, (struct vt_place_fit){hole.end - hole.start, hole.start});

    memmove(placement->holes + index, placement->holes + index + 1,
            (--placement->count - index) * sizeof hole);
    memmove(fits + at, fits + at + 1, (--placement->fit_counts[hole.pool] - at) * sizeof *fits);
    return hole;
}

/* ---- Holes ---- */

void vt_placement_give(struct vt_placement *placement, uint32_t segment, uint32_t pool, uint64_t start,
                       uint64_t size)
{
    struct vt_place_hole hole = {start, start + size, segment, pool % VT_PLACEMENT_POOLS};
    size_t at = hole_from(placement, start);

    if (at && placement->holes[at - 1].end == start && placement->holes[at - 1].segment == segment)
        hole.start = extract(placement, --at).start;
    if (at < placement->count && placement->holes[at].start == hole.end &&
        placement->holes[at].segment == segment)
        hole.end = extract(placement, at).end;
    insert(placement, hole);
}

uint32_t vt_placement_take(struct vt_placement *placement, uint64_t start, uint64_t size)
{
    size_t at = hole_from(placement, start);
    struct vt_place_hole hole;

    if (at == placement->count || placement->holes[at].start != start)
        at--; /* the one before; SIZE_MAX without it */
    if (at >= placement->count || placement->holes[at].end < start + size || start + size < start)
        return VT_NO_SEGMENT;
    hole = extract(placement, at);
    if (hole.start < start)
        insert(placement, (struct vt_place_hole){hole.start, start, hole.segment, hole.pool});
    if (start + size < hole.end)
        insert(placement, (struct vt_place_hole){start + size, hole.end, hole.segment, hole.pool});
    return hole.segment;
}

void vt_placement_drop(struct vt_placement *placement, uint32_t segment, uint64_t start, uint64_t size)
{
    size_t at = hole_from(placement, start);

    while (at < placement->count && placement->holes[at].start < start + size) {
        if (placement->holes[at].segment == segment)
            extract(placement, at);
        else
            at++;
    }
}

bool vt_placement_guess(const struct vt_placement *placement, uint32_t pool, uint64_t size, uint64_t *start)
{
    size_t at;

    pool %= VT_PLACEMENT_POOLS;
    at = fit_from(placement, pool, (struct vt_place_fit){size, 0});
    if (at == placement->fit_counts[pool])
        return false;
    *start = placement->fits[pool][at].start;
    return true;
}

void vt_placement_free(struct vt_placement *placement)
{
    free(placement->holes);
    for (size_t i = 0; i < VT_PLACEMENT_POOLS; i++)
        free(placement->fits[i]);
}
