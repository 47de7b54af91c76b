#include "base/intervals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"

enum { ITEMS = 32, HEIGHT_MAXIMUM = 16 };

/* A leaf has intervals. Another node has nodes, each with the start of its first interval. None is empty. */
struct vt_interval_node {
    unsigned count;
    uint32_t values[ITEMS]; /* of intervals, or nodes */
    uint64_t starts[ITEMS]; /* from `count` on NO_START */
    uint64_t ends[ITEMS];
};
#define NO_START UINT64_MAX

void vt_intervals_free(struct vt_intervals *set)
{
    free(set->nodes);
    *set = (struct vt_intervals){0};
}

/* The last item that starts at `start` or before; if there is none, the first. Without branches, since nobody
 * can foresee them. */
static inline unsigned item_at(const struct vt_interval_node *node, uint64_t start)
{
    const uint64_t *starts = node->starts;
    unsigned at = (unsigned)(starts[16] <= start) << 4;
    at += (unsigned)(starts[at + 8] <= start) << 3;
    at += (unsigned)(starts[at + 4] <= start) << 2;
    at += (unsigned)(starts[at + 2] <= start) << 1;
    at += (unsigned)(starts[at + 1] <= start);
    return at < node->count ? at : node->count - (node->count > 0); /* if it is NO_START */
}

bool vt_intervals_overlap(const struct vt_intervals *set, uint64_t start, uint64_t end,
                          struct vt_interval *found)
{
    const struct vt_interval_node *node = &set->nodes[set->root];
    uint32_t after = 0;  /* the node next to the path, */
    unsigned levels = 0; /* so far above the leaves */
    if (!set->root)
        return false;
    for (unsigned level = set->height; level-- > 0;) {
        const unsigned at = item_at(node, start);
        if (at + 1 < node->count) {
            after = node->values[at + 1];
            levels = level;
        }
        node = &set->nodes[node->values[at]];
    }
    unsigned at = item_at(node, start);
    while (at < node->count && node->ends[at] <= start)
        at++;
    if (at == node->count) {
        if (!after)
            return false;
        for (node = &set->nodes[after], at = 0; levels > 0; levels--)
            node = &set->nodes[node->values[0]];
    }
    *found = (struct vt_interval){node->starts[at], node->ends[at], node->values[at]};
    return found->start < end;
}

static uint32_t take_node(struct vt_intervals *set)
{
    uint32_t taken = set->free_nodes;
    if (taken)
        set->free_nodes = set->nodes[taken].values[0];
    else
        taken = (uint32_t)set->count++;
    set->nodes[taken].count = 0;
    memset(set->nodes[taken].starts, 0xff, sizeof set->nodes[taken].starts);
    return taken;
}

/* Moves items from `from` on by `by` places, to make room or to close a gap. */
static void shift_items(struct vt_interval_node *node, unsigned from, int by)
{
    const unsigned to = (unsigned)((int)from + by), count = node->count - from;
    memmove(node->values + to, node->values + from, count * sizeof *node->values);
    memmove(node->starts + to, node->starts + from, count * sizeof *node->starts);
    memmove(node->ends + to, node->ends + from, count * sizeof *node->ends);
    node->count = (unsigned)((int)node->count + by);
    if (by < 0)
        node->starts[node->count] = NO_START;
}

/* Moves the upper half of a full node to a new one. */
static uint32_t split_node(struct vt_intervals *set, struct vt_interval_node *node)
{
    const uint32_t made = take_node(set);
    struct vt_interval_node *upper = &set->nodes[made];
    node->count = upper->count = ITEMS / 2;
    memcpy(upper->values, node->values + ITEMS / 2, sizeof upper->values / 2);
    memcpy(upper->starts, node->starts + ITEMS / 2, sizeof upper->starts / 2);
    memset(node->starts + ITEMS / 2, 0xff, sizeof node->starts / 2);
    memcpy(upper->ends, node->ends + ITEMS / 2, sizeof upper->ends / 2);
    return made;
}

/* Puts an item into a node in its order. Returns the node's new upper half, 0 = it was not full. */
static uint32_t put_item(struct vt_intervals *set, uint32_t index, const struct vt_interval *item)
{
    struct vt_interval_node *node = &set->nodes[index];
    uint32_t upper = node->count == ITEMS ? split_node(set, node) : 0;
    if (upper && item->start > set->nodes[upper].starts[0])
        node = &set->nodes[upper];
    unsigned at = item_at(node, item->start);
    at += at < node->count && node->starts[at] < item->start;
    shift_items(node, at, 1);
    node->starts[at] = item->start;
    node->ends[at] = item->end;
    node->values[at] = item->value;
    return upper;
}

/* The nodes from the root to the leaf for `start`, and which item of each was next. */
struct path {
    uint32_t nodes[HEIGHT_MAXIMUM];
    unsigned items[HEIGHT_MAXIMUM];
};

static void find_path(const struct vt_intervals *set, uint64_t start, struct path *path)
{
    path->nodes[0] = set->root;
    for (unsigned level = 0;; level++) {
        const struct vt_interval_node *node = &set->nodes[path->nodes[level]];
        path->items[level] = item_at(node, start);
        if (level == set->height)
            return;
        path->nodes[level + 1] = node->values[path->items[level]];
    }
}

static bool has_overlap(const struct vt_intervals *set, const struct path *path, uint64_t start, uint64_t end)
{
    const struct vt_interval_node *leaf = &set->nodes[path->nodes[set->height]];
    const unsigned at = path->items[set->height];
    if (at < leaf->count && leaf->starts[at] < end && leaf->ends[at] > start)
        return true;
    for (unsigned level = set->height + 1; level-- > 0;) { /* the next one */
        const struct vt_interval_node *node = &set->nodes[path->nodes[level]];
        if (path->items[level] + 1 < node->count)
            return node->starts[path->items[level] + 1] < end;
    }
    return false;
}

int vt_intervals_insert(struct vt_intervals *set, uint64_t start, uint64_t end, uint32_t value)
{
    struct vt_interval item = {start, end, value};
    struct path path;
    if (set->height + 2 > HEIGHT_MAXIMUM) /* more than any memory can hold */
        vt_end_out_of_memory();
    vt_reserve(&set->nodes, &set->capacity, set->count + set->height + 3, sizeof *set->nodes);
    if (!set->root) {
        set->count += set->count == 0; /* 0 is none */
        set->root = take_node(set);
    }
    find_path(set, start, &path);
    if (has_overlap(set, &path, start, end))
        return -EEXIST;
    for (unsigned level = 0; level < set->height; level++) {
        uint64_t *lowest = &set->nodes[path.nodes[level]].starts[path.items[level]];
        *lowest = start < *lowest ? start : *lowest;
    }
    for (unsigned level = set->height;; level--) {
        const uint32_t upper = put_item(set, path.nodes[level], &item);
        if (!upper)
            return 0;
        item = (struct vt_interval){.start = set->nodes[upper].starts[0], .value = upper};
        if (level == 0)
            break;
    }
    const struct vt_interval lower = {.start = set->nodes[set->root].starts[0], .value = set->root};
    set->root = take_node(set);
    set->height++;
    put_item(set, set->root, &lower);
    put_item(set, set->root, &item);
    return 0;
}

void vt_intervals_remove(struct vt_intervals *set, uint64_t start, uint32_t value)
{
    struct path path;
    if (!set->root)
        return;
    find_path(set, start, &path);
    struct vt_interval_node *leaf = &set->nodes[path.nodes[set->height]];
    const unsigned at = path.items[set->height];
    if (at >= leaf->count || leaf->starts[at] != start || leaf->values[at] != value)
        return;
    unsigned level = set->height;
    shift_items(leaf, at + 1, -1);
    for (; set->nodes[path.nodes[level]].count == 0; level--) { /* then the node goes, too */
        set->nodes[path.nodes[level]].values[0] = set->free_nodes;
        set->free_nodes = path.nodes[level];
        if (level == 0) {
            set->root = 0;
            set->height = 0;
            return;
        }
        shift_items(&set->nodes[path.nodes[level - 1]], path.items[level - 1] + 1, -1);
    }
    for (; level-- > 0;)
        set->nodes[path.nodes[level]].starts[path.items[level]] = set->nodes[path.nodes[level + 1]].starts[0];
}
