/* Attribution: phases, steps, and a category, evidence and owner for every allocation of a replay. */
#ifndef VT_ATTRIBUTE_H
#define VT_ATTRIBUTE_H

#include "trace/replay.h"

/* A maximal run of one phase. Steps count from 1; init and everything before the first forward is step 0. */
struct vt_span {
    uint32_t first_event, last_event; /* inclusive */
    uint32_t step;
    uint8_t phase; /* enum vt_phase */
};

struct vt_attribution {
    const struct vt_trace *trace;
    struct vt_replay
        *replay;           /* its allocations' category, evidence, phase, step, rule, owner, module are set */
    struct vt_span *spans; /* in order, without gaps over all events */
    size_t span_count;
    uint32_t step_count;
    struct vt_rules *rules;               /* private */
    struct vt_attribution_tables *tables; /* private */
};

/* `rules_path` NULL = the built-in table only (rules.def), else its rules come first. On a bad rules file
 * returns -EINVAL with file, line and reason in `error`. */
int vt_attribute(const struct vt_trace *trace, struct vt_replay *replay, const char *rules_path,
                 struct vt_attribution **attribution, char *error, size_t error_bytes);
void vt_attribution_free(struct vt_attribution *attribution);

/* Phase and step of an event. */
const struct vt_span *vt_span_at(const struct vt_attribution *attribution, uint32_t event_index);
const char *vt_rule_name(const struct vt_attribution *attribution, uint16_t rule);

/* What the stack says about the operator that made an allocation: "aten::addmm", "AddmmBackward0", or NULL.
 */
const char *vt_operator_of(const struct vt_attribution *attribution, uint32_t stack_id);

#endif
