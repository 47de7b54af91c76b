/* Disjoint intervals in order, for very many that come and go: a B+ tree, whose nodes are searched without
 * branches. Logarithmic for any input. (ranges.h also knows what is covered and what is open, and takes
 * several times as long.) A set of zeros is empty. */
#ifndef VT_INTERVALS_H
#define VT_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_interval {
    uint64_t start, end;
    uint32_t value;
};

struct vt_interval_node;

struct vt_intervals {
    struct vt_interval_node *nodes; /* 0 is none */
    size_t count, capacity;
    uint32_t root, free_nodes; /* the latter chained by their first value */
    unsigned height;           /* of the root above the leaves */
};

void vt_intervals_free(struct vt_intervals *set);

/* Adds [start, end), which must be non-empty. Returns 0, or -EEXIST if it overlaps another. */
int vt_intervals_insert(struct vt_intervals *set, uint64_t start, uint64_t end, uint32_t value);
/* Takes out the interval that starts there, if there is one and it has this value. */
void vt_intervals_remove(struct vt_intervals *set, uint64_t start, uint32_t value);
/* The lowest that overlaps [start, end). False if there is none. */
bool vt_intervals_overlap(const struct vt_intervals *set, uint64_t start, uint64_t end,
                          struct vt_interval *found);

#endif
