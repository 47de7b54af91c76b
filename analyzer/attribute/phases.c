/* Lookups by event in phases. */
#include "attribute/phases.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/index.h"

void vt_phases_free(struct vt_phases *phases)
{
    free(phases->spans);
    free(phases->passes);
    free(phases->recomputes);
    free(phases->module_events);
    free(phases->grad_mode);
    memset(phases, 0, sizeof *phases);
}

/* For vt_lower_bound: finds the first pass, recompute or span that begins after the event. All of them have
 * their first event as first member. */
_Static_assert(offsetof(struct vt_pass, first_event) == 0 &&
                   offsetof(struct vt_recompute, first_event) == 0 &&
                   offsetof(struct vt_span, first_event) == 0,
               "compare_beginning");
static int compare_beginning(const void *item, const void *event)
{
    return *(const uint32_t *)item <= *(const uint32_t *)event ? -1 : 1;
}

static long last_before(const void *items, size_t count, size_t item_bytes, uint32_t event)
{
    return (long)vt_lower_bound(items, count, item_bytes, &event, compare_beginning) - 1;
}

long vt_pass_before(const struct vt_phases *phases, uint32_t event)
{
    return last_before(phases->passes, phases->pass_count, sizeof *phases->passes, event);
}

long vt_recompute_before(const struct vt_phases *phases, uint32_t event)
{
    return last_before(phases->recomputes, phases->recompute_count, sizeof *phases->recomputes, event);
}

bool vt_freed_in_pass(const struct vt_phases *phases, const struct vt_allocation *block)
{
    long pass = block->free_event == VT_NEVER ? -1 : vt_pass_before(phases, block->free_event);
    return pass >= 0 && block->free_event <= phases->passes[pass].last_event &&
           block->free_event >= phases->passes[pass].work_event;
}

size_t vt_span_index(const struct vt_span *spans, size_t count, uint32_t event)
{
    long found = last_before(spans, count, sizeof *spans, event);
    return found < 0 ? 0 : (size_t)found;
}

uint32_t vt_step_at(const struct vt_phases *phases, uint32_t event)
{
    return phases->spans[vt_span_index(phases->spans, phases->span_count, event)].step;
}

uint32_t vt_next_module_event(const struct vt_phases *phases, uint32_t event)
{
    size_t next = vt_count_up_to(phases->module_events, phases->module_event_count, event);
    return next < phases->module_event_count ? phases->module_events[next] : VT_NEVER;
}
