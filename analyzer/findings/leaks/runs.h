/* Runs of the script: from one backward pass or optimizer's step to the next (which are runs of their own).
 */
#ifndef VT_LEAK_RUNS_H
#define VT_LEAK_RUNS_H

#include "findings/leaks/finder.h"

/* A span, and the first and last span of the run that it is in. */
struct vt_leak_span {
    bool makes_nodes, pass;
    uint32_t phase_first, phase_last; /* if it is a pass */
    uint32_t other_first, other_last; /* if not */
};

/* What is known of all runs of the trace. */
struct vt_leak_runs {
    const struct vt_leak_finder *finder;
    struct vt_leak_span *spans;
    uint32_t *released, *gone; /* by allocation, of those before it: part of a graph that the engine released,
                                  or that went without it; one more than there are allocations */
    uint32_t *next_input;      /* by allocation: the first from there on that is an input */
    uint32_t *next_node;       /* by event: the next that reports a node, VT_NEVER if something else begins
                                  before it */
    uint32_t *frees;           /* of parts of runs */
    size_t free_count, free_capacity;
    struct vt_index part_index; /* a part's first and end allocation → frees */
};

struct vt_leak_block {
    uint32_t allocation;
    bool in_graph; /* an autograd node was made for it */
    bool input;    /* brought from elsewhere, not computed */
    bool hook;     /* made by a hook */
};

/* One run in a step in which a leak grew, with the blocks that the leak kept of it. */
struct vt_leak_run {
    uint32_t step, first_event, last_event;
    uint8_t phase;
    struct vt_leak_block *blocks; /* in order */
    size_t count;
    /* set by vt_leak_judge_run: */
    size_t graph_count;
    uint32_t last_graph; /* event of the last block in the graph */
    bool reached;        /* by backward */
    uint32_t ran;        /* of them, those whose node backward ran */
    uint32_t released;   /* blocks of the run that the engine released */
    uint32_t dropped;    /* blocks that outlived the making of the graph, and went without the engine */
    bool retained;       /* the graph holds them, and all of it is alive */
};

void vt_leak_runs_read(const struct vt_leak_finder *finder, struct vt_leak_runs *runs);
void vt_leak_runs_free(struct vt_leak_runs *runs);
/* The run that an event is in, without blocks. */
void vt_leak_run_at(const struct vt_leak_runs *runs, uint32_t event, struct vt_leak_run *run);
/* Finds what is known of the run once it has its blocks. */
void vt_leak_judge_run(struct vt_leak_runs *runs, struct vt_leak_run *run);
/* Brought from elsewhere, not computed. */
bool vt_leak_is_input(const struct vt_leak_finder *finder, const struct vt_allocation *allocation);
bool vt_leak_in_graph(const struct vt_leak_runs *runs, const struct vt_allocation *allocation);
bool vt_leak_was_run(const struct vt_leak_finder *finder, const struct vt_allocation *allocation);
/* The first allocation made at or after an event. */
uint32_t vt_leak_first_at(const struct vt_leak_finder *finder, uint32_t event);

#endif
