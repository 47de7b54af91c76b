/* Attribution: phases, steps, and a category, evidence and owner for every allocation of a replay. */
#ifndef VT_ATTRIBUTE_H
#define VT_ATTRIBUTE_H

#include "base/words.h"
#include "replay/replay.h"

/* A maximal run of one phase. Steps count from 1; init and all that is before the first forward is step 0,
 * and so are passes that only prepare graphs. */
struct vt_span {
    uint32_t first_event, last_event; /* inclusive */
    uint32_t step;
    uint8_t phase; /* enum vt_phase */
};

/* The result for one allocation. The attribution owns the strings. */
struct vt_label {
    const char *owner;         /* "layers.3.weight · exp_avg", NULL = unknown */
    const char *module;        /* "layers.3", NULL = unknown */
    uint64_t rounding_bytes;   /* bytes beyond what was requested; 0 = none, or unknown */
    uint32_t step;             /* that made it, from 1; 0 = before the first */
    uint32_t forward_stack_id; /* made in backward: stack of its forward operator, else of the call of
                                  backward; 0 = unknown */
    uint16_t rule;             /* that gave the category (vt_rule_name) */
    uint8_t category;          /* enum vt_category; CACHED for containers */
    uint8_t evidence;          /* enum vt_evidence */
    uint8_t phase;             /* enum vt_phase that made it */
    bool gathered;             /* a whole copy of sharded parameters, made while they are used */
    bool is_half_copy;         /* a weight in half precision, as autocast keeps it */
    bool is_copy; /* one of a set that was copied or read from a file at once, of all parameters' sizes */
};

/* A named tensor that lies in an allocation. Several may share one allocation (views of a flat buffer). */
struct vt_owner {
    const char *name; /* "layers.3.attn.in_proj.weight · exp_avg"; with several roots "generator.0.weight" */
    const char *role; /* "parameter", "buffer", "gradient", "exp_avg" … */
    const char *module;        /* "layers.3.attn": the module that holds it, NULL = none */
    const char *dtype, *shape; /* "" = unknown */
    uint64_t bytes;            /* of the tensor alone */
    uint64_t share_bytes;      /* of the block; the shares of an allocation sum to its bytes */
    uint32_t allocation;       /* index in replay->allocations; the first that has this owner */
    uint8_t evidence; /* exact: an inspection saw it there; strong: it repeats what one saw in another step */
};

/* A tensor of an inspection's census, and the allocation that it lies in. */
struct vt_held {
    uint32_t allocation; /* index in replay->allocations */
    uint32_t inspection; /* index in trace->inspections */
    const struct vt_inspection_holder *holder;
};

/* Tensors that inspections recorded, and how many of them have no allocation. */
struct vt_inspection_counts {
    uint64_t tensors;
    uint64_t homeless;  /* no allocation that holds tensors was alive there: memory of other libraries, or
                           views of it */
    uint64_t misplaced; /* larger than the allocation there: ignored */
};

/* What must hold whatever the program does (identities.h), and whether the labels agree with it. */
enum vt_identity_kind {
    VT_IDENTITY_STATES,   /* an optimizer keeps as many equal states for each parameter as its class says */
    VT_IDENTITY_GRADIENTS /* it makes them for parameters that have a gradient then */
};
enum vt_identity_result {
    VT_IDENTITY_HOLDS,
    VT_IDENTITY_RESTORED, /* since some labels were decided again */
    VT_IDENTITY_BROKEN    /* none of the labels that it is about is strong */
};
struct vt_identity {
    const char *optimizer;                /* its class */
    uint64_t expected_bytes, found_bytes; /* by the labels before any was decided again */
    uint64_t blocks;                      /* decided again, or no longer strong */
    uint32_t states;                      /* for each parameter */
    uint8_t kind, result;
};

/* Calls of one function under which forward passes run. */
struct vt_requests {
    uint32_t *begins; /* events, in order */
    uint32_t *ends;   /* the last event seen in each: calls of several threads overlap */
    size_t count, capacity, end_capacity;
    uint32_t passes;      /* forward passes of the program, which are its steps if it marks none */
    const char *function; /* most passes run in its calls */
    bool are_told;        /* false: nothing tells which passes are one request's */
    bool are_named;       /* the function is known by its name (rules.def) */
};

struct vt_attribution {
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    const struct vt_label *labels; /* by allocation */
    struct vt_span *spans;         /* in order; they cover all events without gaps */
    size_t span_count;
    uint32_t step_count;
    struct vt_requests requests; /* none if the program goes backward */
    uint32_t concurrent_calls,
        calling_threads;           /* calls of models: most at one time; and the threads that made them */
    const struct vt_owner *owners; /* of one allocation together, by address; allocations may share them */
    size_t owner_count;
    const struct vt_held *held; /* by allocation, then by address, latest inspection first */
    size_t held_count;
    struct vt_inspection_counts inspection_counts;
    struct vt_identity *identities; /* those that could be checked */
    size_t identity_count;
    struct vt_rules *rules;               /* private */
    struct vt_attribution_tables *tables; /* private */
};

/* `rules_path`: a file whose rules come before the built-in ones (rules.def), NULL = none. Returns 0,
 * or for a bad rules file -EINVAL with file, line and reason in `error`. The trace and the replay
 * must outlive the attribution. */
int vt_attribute(const struct vt_trace *trace, const struct vt_replay *replay, const char *rules_path,
                 struct vt_attribution **attribution, char *error, size_t error_bytes);
void vt_attribution_free(struct vt_attribution *attribution);

/* `allocation` is one of the attribution's replay. */
static inline const struct vt_label *vt_label_of(const struct vt_attribution *attribution,
                                                 const struct vt_allocation *allocation)
{
    return &attribution->labels[allocation - attribution->replay->allocations];
}

/* Phase and step of an event. */
const struct vt_span *vt_span_at(const struct vt_attribution *attribution, uint32_t event_index);
/* "" = no rule; "seen by an inspection" = read from the live object. */
const char *vt_rule_name(const struct vt_attribution *attribution, uint16_t rule);

/* The text of a rule, its file ("rules.def" = the built-in table) and line. "" without a rule. */
struct vt_rule_source {
    const char *name, *text, *file;
    int line;
};
void vt_rule_text(const struct vt_attribution *attribution, uint16_t rule, struct vt_rule_source *source);

/* True if autograd made a node for what an event allocated. */
bool vt_made_node(const struct vt_attribution *attribution, uint32_t event_index);

/* The operator that a stack shows: "aten::addmm", "AddmmBackward0"; NULL = none. */
const char *vt_operator_of(const struct vt_attribution *attribution, uint32_t stack_id);

/* The owners of an allocation; *count of them. NULL = none. */
const struct vt_owner *vt_owners_of(const struct vt_attribution *attribution, uint32_t allocation,
                                    size_t *count);

/* What held an allocation when an inspection last searched for holders, NULL = unknown. For caches and copies
 * of weights that no inspection saw: what held all others of their stack. */
const struct vt_inspection_holder *vt_holder_of(const struct vt_attribution *attribution,
                                                uint32_t allocation);
/* The latest inspection that saw a tensor in an allocation, and so gave its category; NULL = none. */
const struct vt_inspection *vt_inspection_of(const struct vt_attribution *attribution, uint32_t allocation);

/* Class of a module by its name in labels ("Linear" of "layers.3.fc1" or of "Block#3 > Linear#1"), NULL =
 * unknown. */
const char *vt_module_class(const struct vt_attribution *attribution, const char *module);

#endif
