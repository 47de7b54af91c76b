/* Private to find_phases.c, evaluation.c and steps.c: the state while phases are found. */
#ifndef VT_EVENT_PHASES_H
#define VT_EVENT_PHASES_H

#include "attribute/phases.h"
#include "base/index.h"
#include "format/past.h"

/* What one event shows by itself. */
enum vt_sign {
    SIGN_NONE,
    SIGN_FORWARD,
    SIGN_BACKWARD,
    SIGN_BACKWARD_CALL,
    SIGN_OPTIMIZER,
    SIGN_DATA,
    SIGN_SOURCE, /* the script makes or copies values */
    SIGN_SCRIPT, /* the script computes */
    SIGN_FREE,   /* by the training thread */
    SIGN_FREE_BACKWARD,
    SIGN_WHOLE_STEP, /* a graph is launched that goes forward and backward */
};

/* A label beside enum vt_phase until the next phase is known: frees by the training thread after a pass. */
#define LABEL_TAIL (VT_PHASE_COUNT + 1)

struct vt_finder_thread {
    bool engine;
    bool named_engine;
    bool never_engine;   /* it had native stacks without the engine */
    uint32_t score;      /* the training thread has the highest */
    uint64_t sequence;   /* of its last node or allocation */
    uint32_t node_stack; /* of a node that came by itself, until its operator allocates; 0 = none */
};

/* Graphs: which of them were captured round a backward pass. */
struct vt_finder_graphs {
    struct vt_index graphs, execs; /* handle → 1 if so, else 0 */
    bool has_backward;             /* so far, of the capture that goes on */
};

struct vt_finder {
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    struct vt_traits_by_stack *sites;
    struct vt_phases *phases;
    struct vt_index thread_index;
    struct vt_finder_thread *threads;
    size_t thread_count, thread_capacity;
    uint32_t *thread_of_stack;
    uint32_t *made_by_stack; /* what holds tensors: how many */
    uint32_t *inner_nodes;   /* events: nodes that backward made */
    size_t inner_node_count, inner_node_capacity;
    bool numbered; /* nodes have numbers */
    uint32_t main_thread;
    struct vt_finder_graphs captured;
    uint8_t *holds;          /* by event: HOLDS_… */
    uint8_t *signs, *labels; /* by event */
    uint8_t *frees_gradient; /* by event */
    bool engine_seen;        /* in the current pass */
    bool asks;               /* the latest pass was asked for its gradients, and no forward ran since */
};

/* What an event does to an allocation that holds tensors. */
enum { HOLDS_NOTHING, HOLDS_MADE, HOLDS_FREED };

static inline uint64_t vt_finder_traits(const struct vt_finder *finder, uint32_t stack_id)
{
    return finder->sites->items[stack_id].traits;
}

/* Sets `holds`, `signs`, threads, and grad_mode and module_events of the phases. Adds the trait `backward` to
 * all stacks of the engine's threads. */
void vt_signs_read(struct vt_finder *finder);

#endif
