/* Blocks that were there when an inspection saw all parameters, and that it did not see. */
#include "attribute/unseen.h"

#include <stdlib.h>

#include "attribute/owners.h"
#include "attribute/rules.h"
#include "base/allocate.h"
#include "base/index.h"

static int compare_event(const void *inspection, const void *event_index)
{
    uint32_t own = ((const struct vt_inspection *)inspection)->event_index,
             at = *(const uint32_t *)event_index;
    return (own > at) - (own < at);
}

/* The first inspection after an event. */
static size_t inspection_after(const struct vt_trace *trace, uint32_t event_index)
{
    return vt_lower_bound(trace->inspections, trace->inspection_count, sizeof *trace->inspections,
                          &event_index, compare_event);
}

/* Bytes of parameters by inspection: those that it saw, and those that two witnesses say were there. Each
 * block adds to the first inspection of its life and is taken from the one after its end. */
struct sums {
    int64_t seen, hidden;
};

static void add_block(struct sums *sums, const struct vt_trace *trace, const struct vt_allocation *block,
                      bool seen)
{
    struct sums *first = &sums[inspection_after(trace, block->alloc_event)],
                *end = &sums[inspection_after(trace, block->free_event)];
    *(seen ? &first->seen : &first->hidden) += (int64_t)block->bytes;
    *(seen ? &end->seen : &end->hidden) -= (int64_t)block->bytes;
}

void vt_unseen_find(const struct vt_replay *replay, const struct vt_phases *phases,
                    const struct vt_label *labels, const struct vt_placed *placed, uint64_t *lives)
{
    const struct vt_trace *trace = replay->trace;
    size_t count = trace->inspection_count;
    struct sums *sums = vt_allocate_zeros(count + 1, sizeof *sums);
    uint32_t *complete = /* those that saw all, of the inspections before */
        vt_allocate_zeros(count + 1, sizeof *complete);
    for (size_t i = 0; i < replay->allocation_count && count > 0; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        bool seen = placed->inspection_of[i] != VT_NEVER;
        if (vt_holds_tensors(phases, block) && labels[i].category == VT_CATEGORY_PARAMETER &&
            (seen || labels[i].evidence == VT_EVIDENCE_STRONG))
            add_block(sums, trace, block, seen);
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            sums[i].seen += sums[i - 1].seen;
            sums[i].hidden += sums[i - 1].hidden;
        }
        bool all = sums[i].seen > 0 && sums[i].hidden == 0 && !trace->inspections[i].failure[0] &&
                   !(trace->inspections[i].reason & VT_INSPECTION_LIBRARY);
        complete[i + 1] = complete[i] + all;
    }
    for (size_t i = 0; i < replay->allocation_count && count > 0; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (vt_holds_tensors(phases, block) && placed->inspection_of[i] == VT_NEVER &&
            complete[inspection_after(trace, block->free_event)] >
                complete[inspection_after(trace, block->alloc_event)])
            lives[i] |= VT_LIFE(UNSEEN);
    }
    free(sums);
    free(complete);
}
