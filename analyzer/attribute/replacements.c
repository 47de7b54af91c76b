/* Weights that are quantized on the device: each goes when its smaller form is there. */
#include "attribute/phases.h"
#include "attribute/rules.h"

#define REPLACED_WITHIN 32 /* blocks that are made while a weight is quantized */

/* Index of the first allocation that is made at the event or later. */
static size_t made_from(const struct vt_replay *replay, uint32_t event)
{
    size_t low = 0, high = replay->allocation_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (replay->allocations[middle].alloc_event < event)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_smaller_form(const struct vt_allocation *weight, const struct vt_allocation *block)
{
    return weight->bytes == 2 * block->bytes || weight->bytes == 4 * block->bytes ||
           weight->bytes == 8 * block->bytes;
}

void vt_replacements_find(const struct vt_replay *replay, const struct vt_sites *sites,
                          const struct vt_phases *phases, uint32_t *lives)
{
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *weight = &replay->allocations[i];
        if (weight->free_event == VT_NEVER || !vt_holds_tensors(phases, weight) ||
            !(sites->items[weight->stack_id].traits & VT_TRAIT(MODULE_APPLY)) ||
            (lives[i] & VT_LIFE_PERSISTENT))
            continue;
        size_t end = made_from(replay, weight->free_event);
        for (size_t k = end; k-- > i + 1 && end - k <= REPLACED_WITHIN;) {
            const struct vt_allocation *block = &replay->allocations[k];
            if (!is_smaller_form(weight, block) || !(lives[k] & VT_LIFE_PERSISTENT) ||
                !vt_holds_tensors(phases, block))
                continue;
            lives[k] |= VT_LIFE_REPLACES_PARAMETER;
            break;
        }
    }
}
