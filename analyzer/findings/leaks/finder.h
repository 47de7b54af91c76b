/* What all parts of the search for leaks share: steps, classes of allocations, nodes, and the leaks found. */
#ifndef VT_LEAK_FINDER_H
#define VT_LEAK_FINDER_H

#include "attribute/stack_traits.h"
#include "base/index.h"
#include "findings/leaks/requests.h"
#include "findings/leaks/verdicts.h"
#include "report/report.h"

#define VT_LEAK_BIRTHS 4u
#define VT_LEAK_REGULAR_BIRTHS 3u /* of the same bytes, at equal distances of several steps */
#define VT_NO_CLASS UINT32_MAX

/* Allocations that are the same to a person: made by the same code, whatever the thread and the object. */
struct vt_leak_class {
    uint32_t stack_id;                        /* of the latest kept */
    uint8_t kind;                             /* enum vt_allocation_kind */
    uint32_t first, count;                    /* its allocations: in vt_leak_finder.order */
    uint32_t births, first_birth, last_birth; /* steps with allocations alive at the last border */
    uint64_t bytes_per_step;
    bool grows;
    uint32_t since; /* the first step of its growth */
    uint32_t group; /* index of a leak, VT_NO_CLASS = none yet */
    /* of cycles: what the collector freed of earlier steps */
    uint64_t burst_bytes, most_bytes, most_blocks;
    uint32_t bursts, burst_steps, burst_first_step, burst_last_step;
};

/* A series of bytes by step, or by turn: from each of these steps on. Steps ascend; before the first it is 0.
 */
struct vt_leak_change {
    uint32_t step;
    uint64_t bytes;
};

struct vt_leak_finder {
    const struct vt_attribution *attribution;
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    struct vt_places *places;
    int device_index;
    bool reports_host;
    uint32_t step_count;
    uint32_t *borders;                /* by step: its last event; up to step_count - 1 */
    uint32_t last_border;             /* the last event before the last step */
    struct vt_leak_requests requests; /* where several threads begin steps */
    uint32_t at_one_time;             /* steps in work, at most */
    uint64_t *code_keys;              /* by stack: its lines of Python, else its native frames */
    uint64_t *operator_keys;          /* by stack: its operator, 0 = none */
    uint32_t *class_of;               /* by allocation */
    uint32_t *order;                  /* allocations by class, then by time */
    struct vt_leak_class *classes;
    size_t class_count, class_capacity;
    uint8_t *made_node;            /* by event: an autograd node was made for it */
    struct vt_index ran;           /* nodes that backward ran */
    struct vt_index engine;        /* threads that run backward */
    uint64_t bounded_per_step;     /* growth that provably ends */
    struct vt_leak_change *series; /* scratch */
    size_t series_count, series_capacity;
    struct vt_leaks *leaks;
    size_t leak_capacity;
};

/* Reads steps, classes and nodes. The caller sets the first fields, up to step_count, and leaks, and
 * frees the finder. */
void vt_leak_finder_read(struct vt_leak_finder *finder);
void vt_leak_finder_free(struct vt_leak_finder *finder);

/* A node, running or being made (format.h). */
static inline uint64_t vt_leak_node(uint64_t sequence)
{
    return sequence & ~UINT64_C(1);
}

/* The step that an event belongs to; VT_NEVER for VT_NEVER, what is never freed. */
uint32_t vt_leak_step_of(const struct vt_leak_finder *finder, uint32_t event);
/* Whether the request that made an allocation needed it and freed it. */
static inline bool vt_leak_is_passing(const struct vt_leak_finder *finder, uint32_t allocation)
{
    return finder->requests.passing && finder->requests.passing[allocation];
}
/* Whether it is known what the request that made an allocation keeps. */
static inline bool vt_leak_is_judged(const struct vt_leak_finder *finder, uint32_t allocation)
{
    return !finder->requests.step_of || vt_leak_is_over(&finder->requests, allocation, finder->last_border);
}
/* Made by a step, needed by nothing that still runs, and alive when the last step begins. */
bool vt_leak_is_kept(const struct vt_leak_finder *finder, uint32_t allocation);
/* Index of the leak that an allocation is part of; VT_NO_CLASS = none. */
uint32_t vt_leak_of(const struct vt_leak_finder *finder, uint32_t allocation);

/* Whether who holds it keeps the leak: it stays, or such blocks come and go (a cycle, a tensor that is made
 * anew). */
bool vt_leak_is_held(const struct vt_leak_finder *finder, uint32_t leak, uint32_t allocation);

/* ---- What was found ---- */

struct vt_leak *vt_leak_add(struct vt_leak_finder *finder, enum vt_leak_verdict verdict);
void vt_leak_set_verdict(struct vt_leak *leak, enum vt_leak_verdict verdict);
/* Makes the class a part of the leak. */
void vt_leak_add_part(const struct vt_leak_finder *finder, struct vt_leak *leak, struct vt_leak_class *class,
                      uint64_t bytes, uint64_t blocks, uint8_t category);
/* A leak of device memory that is not freed later: one that lets memory run out. */
static inline bool vt_leak_fills_device(const struct vt_leak *leak)
{
    return leak->is_leak && leak->verdict != VT_LEAK_HOST_PINNED && leak->verdict != VT_LEAK_CYCLE;
}

#endif
