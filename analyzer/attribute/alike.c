/* What looks saw corrects what rules could only guess: a script that makes gradients or state by its own hand
 * makes them on the same stack, of the same size, in each step, and looks may have seen those of one step
 * only. */
#include "attribute/inspected.h"

#include "base/index.h"

#define DIFFERENT (UINT32_MAX - 1) /* looks saw several categories there */

static uint64_t place_of(const struct vt_allocation *block)
{
    uint64_t place = (uint64_t)block->stack_id << 8 | (uint8_t)block->device_index;
    return vt_mix(place, block->bytes);
}

int vt_inspections_spread(const struct vt_replay *replay, const struct vt_phases *phases,
                          const struct vt_placed *placed, struct vt_label *labels)
{
    struct vt_index seen = {0}; /* place → category */
    int error = 0;
    for (size_t i = 0; i < replay->allocation_count && !error; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (placed->inspection_of[i] == VT_NEVER || block->stack_id == 0)
            continue;
        uint32_t known = vt_index_get(&seen, place_of(block));
        bool same = known == VT_INDEX_NONE || known == labels[i].category;
        error = vt_index_put(&seen, place_of(block), same ? labels[i].category : DIFFERENT);
    }
    for (size_t i = 0; i < replay->allocation_count && !error; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (placed->inspection_of[i] != VT_NEVER || labels[i].evidence != VT_EVIDENCE_WEAK ||
            !vt_holds_tensors(phases, block))
            continue;
        uint32_t category = vt_index_get(&seen, place_of(block));
        if (category != VT_CATEGORY_GRADIENT && category != VT_CATEGORY_OPTIMIZER_STATE)
            continue;
        labels[i].category = (uint8_t)category;
        labels[i].evidence = VT_EVIDENCE_STRONG;
        labels[i].rule = VT_RULE_INSPECTION;
    }
    vt_index_free(&seen);
    return error;
}
