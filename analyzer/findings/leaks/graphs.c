/* Which blocks of leaks an autograd graph keeps. Each graph in a census may hold all that the earlier ones
 * hold (a sum that continues through all steps), so trees sum up their blocks, not loops. */
#include "findings/leaks/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

/* A block of a leak whose autograd node is known. */
struct numbered {
    uint64_t number;
    uint32_t leak, allocation;
};

struct vt_leak_graphs {
    const struct vt_allocation *allocations;
    const struct vt_label *labels;
    size_t count, leaves; /* leaves: of each tree, a power of two */
    struct numbered *by_number, *by_leak;
    uint32_t *earlier; /* tree over by_number: the least place + 1 of the previous one of the same leak */
    struct vt_leak_hold *alive;     /* tree over by_leak: sums of those alive at the inspection */
    uint32_t *made, *freed;         /* places in by_leak, in order of their events */
    size_t made_count, freed_count; /* of them, those already passed */
    uint32_t *part_of;              /* by leak: place in parts, VT_NEVER = none */
    struct vt_leak_graph_part *parts;
    size_t part_count, part_capacity;
};

static uint64_t number_of(uint64_t sequence)
{
    return ((sequence & ((UINT64_C(1) << VT_SEQUENCE_THREAD_SHIFT) - 1)) - 2) / 2;
}

static int compare_numbers(const void *a, const void *b)
{
    const struct numbered *left = a, *right = b;
    return 2 * vt_order(left->number, right->number) + vt_order(left->allocation, right->allocation);
}

static int compare_leaks(const void *a, const void *b)
{
    const struct numbered *left = a, *right = b;
    return 4 * vt_order(left->leak, right->leak) + compare_numbers(a, b);
}

static void list_numbered(const struct vt_leak_finder *finder, struct vt_leak_graphs *graphs)
{
    size_t capacity = 0;
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        const struct vt_allocation *block = &finder->replay->allocations[i];
        uint32_t leak = vt_leak_of(finder, i);
        /* later blocks with this number belong to another node */
        if (leak == VT_NO_CLASS || !vt_leak_is_held(finder, leak, i) || block->sequence % 2 ||
            block->sequence <= VT_SEQUENCE_NO_NUMBER || !finder->made_node[block->alloc_event] ||
            block->bytes == 0)
            continue;
        VT_APPEND(graphs->by_number, graphs->count, capacity,
                  (struct numbered){number_of(block->sequence), leak, i});
    }
}

static int compare_made(const void *a, const void *b, void *context)
{
    const struct vt_leak_graphs *graphs = context;
    return vt_order(graphs->by_leak[*(const uint32_t *)a].allocation,
                    graphs->by_leak[*(const uint32_t *)b].allocation);
}

static int compare_freed(const void *a, const void *b, void *context)
{
    const struct vt_leak_graphs *graphs = context;
    return vt_order(graphs->allocations[graphs->by_leak[*(const uint32_t *)a].allocation].free_event,
                    graphs->allocations[graphs->by_leak[*(const uint32_t *)b].allocation].free_event);
}

/* The first of `places` at or after a number, of one leak or of all. */
static size_t first_from(const struct numbered *places, size_t count, uint32_t leak, uint64_t number,
                         int (*compare)(const void *, const void *))
{
    const struct numbered key = {.number = number, .leak = leak};
    return vt_lower_bound(places, count, sizeof key, &key, compare);
}

static void make_trees(struct vt_leak_graphs *graphs, size_t leak_count)
{
    uint32_t *latest = vt_allocate_zeros(leak_count + 1, sizeof *latest);
    for (graphs->leaves = 1; graphs->leaves < graphs->count;)
        graphs->leaves *= 2;
    graphs->earlier = vt_allocate_zeros(graphs->leaves * 2, sizeof *graphs->earlier);
    graphs->alive = vt_allocate_zeros(graphs->leaves * 2, sizeof *graphs->alive);
    for (size_t i = 0; i < graphs->leaves; i++) {
        bool there = i < graphs->count;
        graphs->earlier[graphs->leaves + i] = there ? latest[graphs->by_number[i].leak] : VT_NEVER;
        if (there)
            latest[graphs->by_number[i].leak] = (uint32_t)i + 1;
    }
    for (size_t i = graphs->leaves; i-- > 1;) {
        uint32_t left = graphs->earlier[i * 2], right = graphs->earlier[i * 2 + 1];
        graphs->earlier[i] = left < right ? left : right;
    }
    free(latest);
}

static void make(const struct vt_leak_finder *finder, struct vt_leak_graphs *graphs)
{
    list_numbered(finder, graphs);
    if (graphs->count == 0)
        return;
    graphs->by_leak = vt_allocate(graphs->count * sizeof *graphs->by_leak);
    graphs->made = vt_allocate(graphs->count * sizeof *graphs->made);
    graphs->freed = vt_allocate(graphs->count * sizeof *graphs->freed);
    graphs->part_of = vt_allocate(finder->leaks->count * sizeof *graphs->part_of);
    memset(graphs->part_of, 0xff, finder->leaks->count * sizeof *graphs->part_of); /* VT_NEVER */
    memcpy(graphs->by_leak, graphs->by_number, graphs->count * sizeof *graphs->by_leak);
    qsort(graphs->by_number, graphs->count, sizeof *graphs->by_number, compare_numbers);
    qsort(graphs->by_leak, graphs->count, sizeof *graphs->by_leak, compare_leaks);
    for (uint32_t i = 0; i < graphs->count; i++)
        graphs->made[i] = graphs->freed[i] = i;
    qsort_r(graphs->made, graphs->count, sizeof *graphs->made, compare_made, graphs);
    qsort_r(graphs->freed, graphs->count, sizeof *graphs->freed, compare_freed, graphs);
    make_trees(graphs, finder->leaks->count);
}

struct vt_leak_graphs *vt_leak_graphs_make(const struct vt_leak_finder *finder)
{
    struct vt_leak_graphs *graphs = vt_allocate_zeros(1, sizeof *graphs);
    graphs->allocations = finder->replay->allocations;
    graphs->labels = finder->attribution->labels;
    make(finder, graphs);
    return graphs;
}

void vt_leak_graphs_free(struct vt_leak_graphs *graphs)
{
    if (!graphs)
        return;
    free(graphs->by_number);
    free(graphs->by_leak);
    free(graphs->earlier);
    free(graphs->alive);
    free(graphs->made);
    free(graphs->freed);
    free(graphs->part_of);
    free(graphs->parts);
    free(graphs);
}

void vt_leak_hold_add(struct vt_leak_hold *hold, const struct vt_leak_hold *more)
{
    if (more->bytes == 0)
        return;
    if (hold->bytes == 0 || more->first_step < hold->first_step)
        hold->first_step = more->first_step;
    if (hold->bytes == 0 || more->last_step > hold->last_step)
        hold->last_step = more->last_step;
    hold->bytes += more->bytes;
}

static void set_alive(struct vt_leak_graphs *graphs, uint32_t place, struct vt_leak_hold hold)
{
    size_t at = graphs->leaves + place;
    graphs->alive[at] = hold;
    while (at /= 2) {
        struct vt_leak_hold both = graphs->alive[at * 2];
        vt_leak_hold_add(&both, &graphs->alive[at * 2 + 1]);
        graphs->alive[at] = both;
    }
}

void vt_leak_graphs_at(struct vt_leak_graphs *graphs, uint32_t event)
{
    for (; graphs->made_count < graphs->count; graphs->made_count++) {
        uint32_t place = graphs->made[graphs->made_count];
        uint32_t index = graphs->by_leak[place].allocation, step = graphs->labels[index].step;
        const struct vt_allocation *block = &graphs->allocations[index];
        if (block->alloc_event >= event)
            break;
        if (block->free_event > event)
            set_alive(graphs, place, (struct vt_leak_hold){block->bytes, step, step});
    }
    for (; graphs->freed_count < graphs->count; graphs->freed_count++) {
        uint32_t place = graphs->freed[graphs->freed_count];
        if (graphs->allocations[graphs->by_leak[place].allocation].free_event > event)
            break;
        set_alive(graphs, place, (struct vt_leak_hold){0});
    }
}

/* Sum of the places [first, end) in by_leak. */
static struct vt_leak_hold sum_of(const struct vt_leak_graphs *graphs, size_t first, size_t end)
{
    struct vt_leak_hold hold = {0};
    for (first += graphs->leaves, end += graphs->leaves; first < end; first /= 2, end /= 2) {
        if (first % 2)
            vt_leak_hold_add(&hold, &graphs->alive[first++]);
        if (end % 2)
            vt_leak_hold_add(&hold, &graphs->alive[--end]);
    }
    return hold;
}

/* A range of node numbers, and its places in by_number. */
struct range {
    uint64_t first, last;
    size_t begin, end;
};

static void add_part(struct vt_leak_graphs *graphs, uint32_t leak, const struct range *range)
{
    size_t first = first_from(graphs->by_leak, graphs->count, leak, range->first, compare_leaks);
    size_t end = range->last == UINT64_MAX
                     ? first_from(graphs->by_leak, graphs->count, leak + 1, 0, compare_leaks)
                     : first_from(graphs->by_leak, graphs->count, leak, range->last + 1, compare_leaks);
    struct vt_leak_hold hold = sum_of(graphs, first, end);
    if (hold.bytes == 0)
        return;
    uint32_t at = graphs->part_of[leak];
    if (at == VT_NEVER) {
        at = graphs->part_of[leak] = (uint32_t)graphs->part_count;
        VT_APPEND(graphs->parts, graphs->part_count, graphs->part_capacity,
                  (struct vt_leak_graph_part){.leak = leak});
    }
    vt_leak_hold_add(&graphs->parts[at].hold, &hold);
}

/* Adds each leak that has a number in the range, once: at its first place in the range. `node` of the tree
 * covers `places` places from `low`. */
static void add_leaks(struct vt_leak_graphs *graphs, size_t node, size_t low, size_t places,
                      const struct range *range)
{
    if (low >= range->end || low + places <= range->begin || graphs->earlier[node] > range->begin)
        return;
    if (places == 1) {
        add_part(graphs, graphs->by_number[low].leak, range);
        return;
    }
    add_leaks(graphs, node * 2, low, places / 2, range);
    add_leaks(graphs, node * 2 + 1, low + places / 2, places / 2, range);
}

const struct vt_leak_graph_part *vt_leak_graphs_find(struct vt_leak_graphs *graphs, const char *nodes,
                                                     size_t *count)
{
    for (size_t i = 0; i < graphs->part_count; i++)
        graphs->part_of[graphs->parts[i].leak] = VT_NEVER;
    graphs->part_count = 0;
    for (const char *at = nodes; *at && graphs->count > 0;) {
        char *end;
        struct range range = {.first = strtoull(at, &end, 10)};
        range.last = *end == '-' ? strtoull(end + 1, &end, 10) : range.first;
        range.begin = first_from(graphs->by_number, graphs->count, 0, range.first, compare_numbers);
        range.end = range.last == UINT64_MAX
                        ? graphs->count
                        : first_from(graphs->by_number, graphs->count, 0, range.last + 1, compare_numbers);
        if (range.begin < range.end)
            add_leaks(graphs, 1, 0, graphs->leaves, &range);
        if (*end != ',')
            break;
        at = end + 1;
    }
    *count = graphs->part_count;
    return graphs->parts;
}
