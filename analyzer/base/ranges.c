#include "base/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/index.h"

void vt_ranges_init(struct vt_ranges *ranges)
{
    memset(ranges, 0, sizeof *ranges);
    if (getrandom(&ranges->random, sizeof ranges->random, GRND_NONBLOCK) < 0)
        ranges->random = (uint64_t)(uintptr_t)ranges;
    ranges->random |= 1; /* xorshift stays at 0 */
    vt_reserve(&ranges->nodes, &ranges->capacity, 1, sizeof *ranges->nodes);
    memset(&ranges->nodes[0], 0, sizeof ranges->nodes[0]);
    ranges->count = 1;
}

void vt_ranges_free(struct vt_ranges *ranges)
{
    free(ranges->nodes);
    memset(ranges, 0, sizeof *ranges);
}

static void update_sums(struct vt_range_node *nodes, uint32_t at)
{
    struct vt_range_node *node = &nodes[at];
    node->covered = node->end - node->start + nodes[node->left].covered + nodes[node->right].covered;
    node->open_below = node->open + nodes[node->left].open_below + nodes[node->right].open_below;
}

/* Splits a subtree into what starts before `start` and the rest. */
static void split_tree(struct vt_range_node *nodes, uint32_t at, uint64_t start, uint32_t *before,
                       uint32_t *rest)
{
    if (at == 0) {
        *before = *rest = 0;
    } else if (nodes[at].start < start) {
        *before = at;
        split_tree(nodes, nodes[at].right, start, &nodes[at].right, rest);
        update_sums(nodes, at);
    } else {
        *rest = at;
        split_tree(nodes, nodes[at].left, start, before, &nodes[at].left);
        update_sums(nodes, at);
    }
}

static uint32_t merge_trees(struct vt_range_node *nodes, uint32_t before, uint32_t rest)
{
    if (before == 0 || rest == 0)
        return before ? before : rest;
    uint32_t top = nodes[before].priority > nodes[rest].priority ? before : rest;
    if (top == before)
        nodes[top].right = merge_trees(nodes, nodes[top].right, rest);
    else
        nodes[top].left = merge_trees(nodes, before, nodes[top].left);
    update_sums(nodes, top);
    return top;
}

/* All ranges above the new one gain what it has. */
static void insert_node(struct vt_range_node *nodes, uint32_t *at, uint32_t fresh)
{
    struct vt_range_node *node = &nodes[fresh];
    while (*at && nodes[*at].priority >= node->priority) {
        nodes[*at].covered += node->end - node->start;
        nodes[*at].open_below += node->open;
        at = node->start < nodes[*at].start ? &nodes[*at].left : &nodes[*at].right;
    }
    split_tree(nodes, *at, node->start, &node->left, &node->right);
    *at = fresh;
    update_sums(nodes, fresh);
}

void vt_ranges_insert(struct vt_ranges *ranges, uint32_t *root, uint64_t start, uint64_t end, uint32_t value)
{
    uint32_t fresh = ranges->free_nodes;
    if (fresh) {
        ranges->free_nodes = ranges->nodes[fresh].left;
    } else {
        vt_reserve(&ranges->nodes, &ranges->capacity, ranges->count + 1, sizeof *ranges->nodes);
        fresh = (uint32_t)ranges->count++;
    }
    ranges->random ^= ranges->random << 13;
    ranges->random ^= ranges->random >> 7;
    ranges->random ^= ranges->random << 17;
    ranges->nodes[fresh] = (struct vt_range_node){.start = start,
                                                  .end = end,
                                                  .value = value,
                                                  .open = true,
                                                  .priority = (uint32_t)(ranges->random >> 32)};
    insert_node(ranges->nodes, root, fresh);
}

void vt_ranges_remove(struct vt_ranges *ranges, uint32_t *root, uint64_t start)
{
    struct vt_range_node *nodes = ranges->nodes;
    const struct vt_range_node *node = vt_ranges_overlap(ranges, *root, start, start + 1);
    if (!node || node->start != start)
        return;
    uint32_t found = (uint32_t)(node - nodes), *at = root;
    while (*at != found) {
        nodes[*at].covered -= node->end - node->start;
        nodes[*at].open_below -= node->open;
        at = start < nodes[*at].start ? &nodes[*at].left : &nodes[*at].right;
    }
    *at = merge_trees(nodes, nodes[found].left, nodes[found].right);
    nodes[found].left = ranges->free_nodes;
    ranges->free_nodes = found;
}

const struct vt_range_node *vt_ranges_overlap(const struct vt_ranges *ranges, uint32_t root, uint64_t start,
                                              uint64_t end)
{
    const struct vt_range_node *found = NULL;
    for (uint32_t at = root; at != 0;) {
        const struct vt_range_node *node = &ranges->nodes[at];
        if (node->end <= start) {
            at = node->right;
        } else {
            if (node->start < end)
                found = node;
            at = node->left;
        }
    }
    return found;
}

/* Bytes of the set below `limit`. */
static uint64_t covered_below(const struct vt_ranges *ranges, uint32_t root, uint64_t limit)
{
    uint64_t bytes = 0;
    for (uint32_t at = root; at != 0;) {
        const struct vt_range_node *node = &ranges->nodes[at];
        if (node->end <= limit) {
            bytes += ranges->nodes[node->left].covered + (node->end - node->start);
            at = node->right;
        } else {
            if (node->start < limit)
                bytes += limit - node->start;
            at = node->left;
        }
    }
    return bytes;
}

uint64_t vt_ranges_covered(const struct vt_ranges *ranges, uint32_t root, uint64_t start, uint64_t end)
{
    return covered_below(ranges, root, end) - covered_below(ranges, root, start);
}

uint32_t vt_ranges_close_one(struct vt_ranges *ranges, uint32_t root, uint64_t start, uint64_t end)
{
    struct vt_range_node *nodes = ranges->nodes;
    if (root == 0 || nodes[root].open_below == 0)
        return VT_RANGE_NONE;
    struct vt_range_node *node = &nodes[root];
    uint32_t value = VT_RANGE_NONE;
    if (node->start > start)
        value = vt_ranges_close_one(ranges, node->left, start, end);
    if (value == VT_RANGE_NONE && node->open && node->start < end && node->end > start) {
        node->open = false;
        value = node->value;
    }
    if (value == VT_RANGE_NONE && node->end < end)
        value = vt_ranges_close_one(ranges, node->right, start, end);
    if (value != VT_RANGE_NONE)
        update_sums(nodes, root);
    return value;
}
