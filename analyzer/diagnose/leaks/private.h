/* Private to leaks.c and the leak_*.c beside it. */
#ifndef VT_LEAKS_PRIVATE_H
#define VT_LEAKS_PRIVATE_H

#include "attribute/sites.h"
#include "base/index.h"
#include "diagnose/leaks/leaks.h"
#include "report/parts.h"

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
    /* of cycles: what was freed together with what other steps made */
    uint64_t burst_bytes, most_bytes, most_blocks;
    uint32_t bursts, burst_moves, burst_steps, burst_first_step, burst_last_step;
    uint64_t burst_place;
    bool burst_inside;
};

/* A span, and how far a run goes that it is in: as spans. */
struct vt_leak_span {
    bool makes_nodes, pass;
    uint32_t phase_first, phase_last; /* if it is a pass */
    uint32_t other_first, other_last; /* if not */
};

/* What leak_runs.c knows of the whole trace. */
struct vt_leak_runs {
    struct vt_leak_span *spans;
    uint32_t *released, *gone; /* by allocation, of those before it: part of a graph that the engine released,
                                  or that went without it; one more than there are allocations */
    uint32_t *next_input;      /* by allocation: the first from there on that is an input */
    uint32_t
        *next_node; /* by event: the next that tells of a node, VT_NEVER if something else begins before it */
    uint32_t *frees; /* of parts of runs */
    size_t free_count, free_capacity;
    struct vt_index part_index; /* a part's first and end allocation → frees */
};

/* A series of bytes by step: from each of these steps on. Steps ascend; before the first it is 0. */
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
    bool tells_host, has_blocks;
    uint32_t step_count;
    uint32_t *borders;    /* by step: its last event; up to step_count - 1 */
    uint32_t last_border; /* the last event before the last step */
    uint64_t *code_keys;  /* by stack: its lines of Python, else its native frames */
    uint32_t *class_of;   /* by allocation */
    uint32_t *order;      /* allocations by class, then by time */
    struct vt_leak_class *classes;
    size_t class_count, class_capacity;
    uint8_t *made_node;            /* by event: an autograd node was made for it */
    struct vt_index ran;           /* nodes that backward ran */
    struct vt_index engine;        /* threads that run backward */
    struct vt_leak_change *series; /* scratch */
    size_t series_count, series_capacity;
    struct vt_leak_runs runs;
    struct vt_leaks *leaks;
    size_t leak_capacity;
};

/* A node, running or being made (format.h). */
static inline uint64_t vt_leak_node(uint64_t sequence)
{
    return sequence & ~UINT64_C(1);
}

static inline bool vt_leak_was_run(const struct vt_leak_finder *finder,
                                   const struct vt_allocation *allocation)
{
    return vt_index_get(&finder->ran, vt_leak_node(allocation->sequence)) != VT_INDEX_NONE;
}

/* A run of growth: the steps in which a series exceeds all that it was before. */
struct vt_growth {
    uint32_t first_step, last_step, records;
    uint64_t rise; /* between them */
};
/* leak_growth.c: whether a series grows over and over from one step to the other, up to the end. -ENOMEM. */
int vt_growth_repeats(const struct vt_leak_change *series, size_t count, uint32_t from, uint32_t to,
                      struct vt_growth *growth, bool *repeats);

/* The step in which an allocation was freed; beyond the last for one that was not. */
uint32_t vt_leak_free_step(const struct vt_leak_finder *finder, const struct vt_allocation *allocation);
bool vt_leak_is_kept(const struct vt_leak_finder *finder, uint32_t allocation);
/* NULL without memory. */
struct vt_leak *vt_leak_add(struct vt_leak_finder *finder, enum vt_leak_verdict verdict);
void vt_leak_set_verdict(struct vt_leak *leak, enum vt_leak_verdict verdict);
/* Sums a class up in a leak. */
int vt_leak_add_part(struct vt_leak *leak, const struct vt_leak_class *class, uint64_t bytes, uint64_t blocks,
                     uint8_t category);
/* The user's frames of a stack, the innermost `limit` of them, that the leak's lines do not have yet. */
void vt_leak_add_lines(const struct vt_leak_finder *finder, struct vt_leak *leak, uint32_t stack_id,
                       size_t limit);

/* leak_groups.c: puts classes that grow together into leaks, by the graph that holds them. */
int vt_leak_groups_find(struct vt_leak_finder *finder);

/* One step of those in which a leak grew: what it kept of one run of the script, from one backward pass or
 * optimizer's step to the next (which are runs of their own). */
struct vt_leak_block {
    uint32_t allocation;
    bool in_graph; /* an autograd node was made for it */
    bool input;    /* brought from elsewhere, not computed */
    bool hook;     /* made by a hook */
};
struct vt_leak_run {
    uint32_t step, first_event, last_event;
    uint8_t phase;
    struct vt_leak_block *blocks; /* in order */
    size_t count;
    /* vt_leak_judge_run: */
    size_t graph_count;
    uint32_t last_graph; /* event of the last block in the graph */
    bool reached;        /* by backward */
    uint32_t ran;        /* of them, those whose node backward ran */
    uint32_t released;   /* blocks of the run that the engine let go of */
    uint32_t dropped;    /* blocks that outlived the making of the graph, and went without the engine */
    bool retained;       /* the graph holds them, and all of it is alive */
};
/* leak_runs.c; vt_leak_runs_read comes before all others. Return 0 or -ENOMEM. */
int vt_leak_runs_read(struct vt_leak_finder *finder);
void vt_leak_runs_free(struct vt_leak_finder *finder);
/* The run that an event is in, without blocks. */
void vt_leak_run_at(const struct vt_leak_finder *finder, uint32_t event, struct vt_leak_run *run);
/* What is known of the run once it has its blocks. */
int vt_leak_judge_run(struct vt_leak_finder *finder, struct vt_leak_run *run);
/* Brought from elsewhere, not computed. */
bool vt_leak_is_input(const struct vt_leak_finder *finder, const struct vt_allocation *allocation);
bool vt_leak_in_graph(const struct vt_leak_finder *finder, const struct vt_allocation *allocation);
/* The first allocation made at or after an event. */
uint32_t vt_leak_first_at(const struct vt_leak_finder *finder, uint32_t event);

/* leak_verdicts.c */
bool vt_leak_made_by_hook(const struct vt_leak_finder *finder, uint32_t allocation);
/* Verdict, evidence and lines of a leak whose blocks of that run are `blocks` (at least one). `every` = steps
 * from one time that it grows to the next. */
void vt_leak_judge(const struct vt_leak_finder *finder, const struct vt_leak_run *run,
                   const struct vt_leak_block *blocks, size_t count, bool graph, uint32_t every,
                   struct vt_leak *leak);
/* leak_cycles.c: what was freed only when the collector ran. */
int vt_leak_cycles_find(struct vt_leak_finder *finder);
/* leak_cache.c: growth of what the driver gave, beside that of blocks; and the forecast. */
int vt_leak_cache_find(struct vt_leak_finder *finder);

/* leak_rebuilt.c: one tensor that each step makes anew, out of itself and more. */
int vt_leak_rebuilt_find(struct vt_leak_finder *finder);
/* Bytes of a class alive at each step's end: in finder->series. -ENOMEM. */
int vt_leak_make_series(struct vt_leak_finder *finder, const struct vt_leak_class *class);

/* Of blocks alive at an inspection. */
struct vt_leak_hold {
    uint64_t bytes;
    uint32_t first_step, last_step; /* that made them */
};
void vt_leak_hold_add(struct vt_leak_hold *hold, const struct vt_leak_hold *more);

/* leak_graphs.c: what of each leak a graph keeps. */
struct vt_leak_graph_part {
    uint32_t leak; /* index */
    struct vt_leak_hold hold;
};
struct vt_leak_graphs;
int vt_leak_graphs_make(const struct vt_leak_finder *finder, struct vt_leak_graphs **graphs);
void vt_leak_graphs_free(struct vt_leak_graphs *graphs);
/* What follows is of what is alive then; events ascend. */
void vt_leak_graphs_at(struct vt_leak_graphs *graphs, uint32_t event);
/* Parts of the graph of those nodes: "12-40,52-52". They live until the next call. Returns 0 or -ENOMEM. */
int vt_leak_graphs_find(struct vt_leak_graphs *graphs, const char *nodes,
                        const struct vt_leak_graph_part **parts, size_t *count);

/* leak_holders.c: which Python name holds each leak. */
int vt_leak_holders_find(struct vt_leak_finder *finder);

#endif
