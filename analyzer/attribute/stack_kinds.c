#include "attribute/match.h"
#include "attribute/stack_kinds.h"

#include <stdlib.h>

#include "attribute/rules.h"
#include "attribute/stack_traits.h"
#include "base/allocate.h"

#define STEPS_LEAST 8    /* fewer prove nothing */
#define WINDOW_LEAST 32u /* events: shorter windows are of moments that all steps have at one place */

static uint8_t kind_of(uint64_t traits)
{
    if (traits & VT_TRAIT(BACKWARD))
        return VT_STACK_BACKWARD;
    if (traits & VT_TRAIT(OPTIMIZER))
        return VT_STACK_OPTIMIZER;
    if (traits & VT_TRAIT(MODULE))
        return VT_STACK_FORWARD;
    return traits & (VT_TRAIT(DATA) | VT_TRAIT(SOURCE) | VT_TRAIT(ROWS)) ? VT_STACK_DATA : VT_STACK_OTHER;
}

/* How many steps begin after `first` in the events [first, end), which have no gap; *events more of them. */
static uint64_t steps_between(const struct vt_attribution *attribution, uint32_t first, uint32_t end,
                              uint64_t *events)
{
    if (end < first + WINDOW_LEAST)
        return 0;
    *events += end - first - 1;
    return vt_span_at(attribution, end - 1)->step - vt_span_at(attribution, first)->step;
}

bool vt_steps_agree(const struct vt_attribution *attribution)
{
    const struct vt_trace *trace = attribution->trace;
    uint64_t steps = 0, events = 0;
    uint32_t first = 0;
    for (size_t i = 0; i < trace->gap_count; i++) {
        steps += steps_between(attribution, first, trace->gaps[i].first, &events);
        first = trace->gaps[i].end;
    }
    steps += steps_between(attribution, first, (uint32_t)trace->event_count, &events);
    double expected = events ? (double)steps / (double)events * (double)trace->recorded_events : 0;
    return attribution->step_count * 2 + STEPS_LEAST > expected &&
           attribution->step_count < expected * 2 + STEPS_LEAST;
}

uint8_t *vt_stack_kinds_find(const struct vt_trace *trace)
{
    struct vt_traits_by_stack sites = {0};
    struct vt_rules *rules;
    uint8_t *kinds = vt_allocate_zeros(trace->stack_count + 1, 1);
    vt_rules_load(NULL, &rules, NULL, 0); /* a test makes sure that these can be read */
    struct vt_matcher *matcher = vt_traits_by_stack_make(trace, rules, &sites);
    for (size_t id = 0; id < trace->stack_count; id++)
        kinds[id] = kind_of(sites.items[id].traits);
    vt_matcher_free(matcher);
    vt_traits_by_stack_free(&sites);
    vt_rules_free(rules);
    return kinds;
}
