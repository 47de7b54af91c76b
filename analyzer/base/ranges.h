/* An ordered set of disjoint address ranges: which one holds an address, which overlap a span, and how much
 * of a span they cover. Logarithmic for any input (a treap with random priorities), since the addresses come
 * from an untrusted file. Several sets may share one store of nodes; a set is its root, 0 = empty. */
#ifndef VT_RANGES_H
#define VT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VT_RANGE_NONE UINT32_MAX

struct vt_range_node {
    uint64_t start, end;
    uint64_t covered; /* bytes of this and all below */
    uint32_t left, right;
    uint32_t priority;
    uint32_t value;
    uint32_t open_below; /* open ones among this and all below */
    bool open;
};

struct vt_ranges {
    struct vt_range_node *nodes; /* 0 is the empty node */
    size_t count, capacity;
    uint32_t free_nodes; /* chained by `left` */
    uint64_t random;
};

void vt_ranges_init(struct vt_ranges *ranges);
void vt_ranges_free(struct vt_ranges *ranges);

/* Adds [start, end), which must be non-empty and overlap none in the set, as an open range. */
void vt_ranges_insert(struct vt_ranges *ranges, uint32_t *root, uint64_t start, uint64_t end, uint32_t value);
/* Takes out the range that starts there, if there is one. */
void vt_ranges_remove(struct vt_ranges *ranges, uint32_t *root, uint64_t start);

/* The lowest range that overlaps [start, end), or NULL; valid until the next change. */
const struct vt_range_node *vt_ranges_overlap(const struct vt_ranges *ranges, uint32_t root, uint64_t start,
                                              uint64_t end);
/* How many bytes of [start, end) lie in the set. */
uint64_t vt_ranges_covered(const struct vt_ranges *ranges, uint32_t root, uint64_t start, uint64_t end);
/* Closes one open range that overlaps [start, end) and returns its value, VT_RANGE_NONE if there is none. */
uint32_t vt_ranges_close_one(struct vt_ranges *ranges, uint32_t root, uint64_t start, uint64_t end);

#endif
