/* Attribution: phases, steps, and a category, evidence and owner for every allocation of a replay. */
#ifndef VT_ATTRIBUTE_H
#define VT_ATTRIBUTE_H

#include "base/words.h"
#include "replay/replay.h"

/* A maximal run of one phase. Steps count from 1; init and everything before the first forward is step 0. */
struct vt_span {
    uint32_t first_event, last_event; /* inclusive */
    uint32_t step;
    uint8_t phase; /* enum vt_phase */
};

/* What attribution says of one allocation. The attribution owns the strings. */
struct vt_label {
    const char *owner;         /* "layers.3.weight · exp_avg", NULL = unknown */
    const char *module;        /* "layers.3", NULL = unknown */
    uint64_t rounding_bytes;   /* of its bytes: more than was asked for; 0 where that is not known */
    uint32_t step;             /* that made it, from 1; 0 = before the first */
    uint32_t forward_stack_id; /* made in backward: stack of its forward operator, 0 = unknown */
    uint16_t rule;             /* that gave the category (vt_rule_name) */
    uint8_t category;          /* enum vt_category; CACHED for containers */
    uint8_t evidence;          /* enum vt_evidence */
    uint8_t phase;             /* enum vt_phase that made it */
};

/* A named thing that lies in an allocation. Several may share one (views of a flat buffer). */
struct vt_owner {
    const char *name; /* "layers.3.attn.in_proj.weight · exp_avg"; with several roots "generator.0.weight" */
    const char *role; /* "parameter", "buffer", "gradient", "exp_avg" … */
    const char *module;        /* "layers.3.attn": the name of the module that holds it, NULL = none */
    const char *dtype, *shape; /* "" = not known */
    uint64_t bytes;            /* its own, without the rest of the block */
    uint64_t share_bytes; /* of the block's, with what is left over; an allocation's add up to its bytes */
    uint32_t allocation;  /* index in replay->allocations: the first that has it */
    uint8_t evidence;     /* exact: seen there; strong: known from the same place of another step */
};

/* A tensor of a look's census, in the allocation that it lies in. */
struct vt_held {
    uint32_t allocation; /* index in replay->allocations */
    uint32_t inspection; /* index in trace->looks */
    const struct vt_inspection_holder *holder;
};

/* Tensors that looks told of, and what became of them. */
struct vt_inspection_counts {
    uint64_t tensors;
    uint64_t homeless;  /* nothing was alive there that could hold a tensor: memory of others, views of it */
    uint64_t misplaced; /* larger than what was alive there: not believed */
};

struct vt_attribution {
    const struct vt_trace *trace;
    const struct vt_replay *replay;
    const struct vt_label *labels; /* by allocation */
    struct vt_span *spans;         /* in order, without gaps over all events */
    size_t span_count;
    uint32_t step_count;
    const struct vt_owner *owners; /* of an allocation together, by address; several may share theirs */
    size_t owner_count;
    const struct vt_held *held; /* by allocation, then by address, latest look first */
    size_t held_count;
    struct vt_inspection_counts inspection_counts;
    struct vt_rules *rules;               /* private */
    struct vt_attribution_tables *tables; /* private */
};

/* `rules_path` NULL = the built-in table only (rules.def), else its rules come first. On a bad rules file
 * returns -EINVAL with file, line and reason in `error`. */
int vt_attribute(const struct vt_trace *trace, const struct vt_replay *replay, const char *rules_path,
                 struct vt_attribution **attribution, char *error, size_t error_bytes);
void vt_attribution_free(struct vt_attribution *attribution);

/* Of an allocation of its replay. */
static inline const struct vt_label *vt_label_of(const struct vt_attribution *attribution,
                                                 const struct vt_allocation *allocation)
{
    return &attribution->labels[allocation - attribution->replay->allocations];
}

/* Phase and step of an event. */
const struct vt_span *vt_span_at(const struct vt_attribution *attribution, uint32_t event_index);
/* "" = no rule; "seen by a look" where the live object told. */
const char *vt_rule_name(const struct vt_attribution *attribution, uint16_t rule);

/* A rule as it was written: its lines, where they stand ("rules.def" = the built-in table). "" without a
 * rule. */
struct vt_rule_source {
    const char *name, *text, *file;
    int line;
};
void vt_rule_source(const struct vt_attribution *attribution, uint16_t rule, struct vt_rule_source *source);

/* True if autograd made a node for what an event allocated. */
bool vt_made_node(const struct vt_attribution *attribution, uint32_t event_index);

/* What the stack says about the operator that made an allocation: "aten::addmm", "AddmmBackward0", or NULL.
 */
const char *vt_operator_of(const struct vt_attribution *attribution, uint32_t stack_id);

/* Owners that lie in an allocation; *count of them. */
const struct vt_owner *vt_owners_of(const struct vt_attribution *attribution, uint32_t allocation,
                                    size_t *count);

/* The latest look that saw what lies in an allocation, and so gave its category; NULL = none did. */
const struct vt_inspection *vt_inspection_of(const struct vt_attribution *attribution, uint32_t allocation);

/* Class of a module by its name as allocations have it ("Linear" of "layers.3.fc1" or of "Block#3 >
 * Linear#1"), NULL = not known. */
const char *vt_module_class(const struct vt_attribution *attribution, const char *module);

#endif
