/* Private to attribution: phases, steps and backward passes, from stacks, threads and autograd's counter. */
#ifndef VT_PHASES_H
#define VT_PHASES_H

#include "attribute/stack_traits.h"

/* One run of the autograd engine. */
struct vt_pass {
    uint32_t first_event;
    uint32_t last_event; /* of the engine's threads */
    uint32_t work_event; /* the engine's first allocation: frees before it belong to the previous pass */
    bool makes_nodes;    /* create_graph: its blocks are part of a graph, and another pass may need them */
    bool is_inner;       /* autograd.grad called it, for the forward of another pass */
    uint32_t left, kept; /* blocks without frames that outlive it, and those of them that nobody frees */
};

/* A run of allocations, as long as possible, that a checkpoint makes again in backward. */
struct vt_recompute {
    uint32_t first_event, last_event;
};

/* For lookups by event: for each block of events, how many of the items begin before it. */
#define VT_BEGUN_EVENTS 64u
struct vt_begun {
    const void *items;
    size_t item_count, item_bytes;
    uint32_t *counts;
    size_t blocks;
};

struct vt_phases {
    struct vt_span *spans;
    size_t span_count, span_capacity;
    uint32_t step_count;
    struct vt_pass *passes;
    size_t pass_count, pass_capacity;
    struct vt_recompute *recomputes;
    size_t recompute_count, recompute_capacity;
    uint32_t *module_events; /* events in which a module call allocated */
    size_t module_event_count, module_event_capacity;
    struct vt_requests requests;
    struct vt_begun begun_passes, begun_recomputes, begun_spans, begun_modules;
    uint8_t *grad_mode; /* by event: autograd made a node for it */
    bool has_blocks;    /* a framework recorded its blocks */
};

/* Whether it holds tensors: true for a framework's blocks, or, if no framework records blocks (PyTorch over
 * cudaMallocAsync), for driver memory. */
static inline bool vt_holds_tensors(const struct vt_phases *phases, const struct vt_allocation *allocation)
{
    if (phases->has_blocks)
        return allocation->kind == VT_ALLOCATION_BLOCK;
    return allocation->kind == VT_ALLOCATION_POOLED || allocation->kind == VT_ALLOCATION_DRIVER;
}

void vt_phases_free(struct vt_phases *phases);
/* Call these before the lookups below: the first once all passes are known, the second once everything is. */
void vt_phases_settle_passes(struct vt_phases *phases, size_t events);
void vt_phases_settle(struct vt_phases *phases, size_t events);

/* Counts what passes left. */
void vt_phases_count_left(struct vt_phases *phases, const struct vt_replay *replay);

/* True if a backward pass freed the block, whichever made it. */
bool vt_freed_in_pass(const struct vt_phases *phases, const struct vt_allocation *block);
/* True if a pass made the block and it stays, though most of what the pass left is freed: no gradient, but
 * what a library keeps in autograd's thread. Only of blocks without frames, which show more. */
bool vt_stays_alone(const struct vt_phases *phases, const struct vt_replay *replay,
                    const struct vt_allocation *block);
/* Index of the last item that begins at or before `event`, or -1. */
long vt_pass_before(const struct vt_phases *phases, uint32_t event);
long vt_recompute_before(const struct vt_phases *phases, uint32_t event);
size_t vt_span_index(const struct vt_phases *phases, uint32_t event); /* 0 instead of -1 */
uint32_t vt_step_at(const struct vt_phases *phases, uint32_t event);
/* The first module call that allocates after `event`, VT_NEVER if there is none. */
uint32_t vt_next_module_event(const struct vt_phases *phases, uint32_t event);

#endif
