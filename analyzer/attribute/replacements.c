/* Weights that are quantized on the device: each goes when its smaller form is there, and the same function
 * makes what belongs to that: scales, zero points. */
#include "attribute/replacements.h"

#include "attribute/phases.h"
#include "attribute/rules.h"

#define REPLACED_WITHIN 32 /* blocks that are made while a weight is quantized */
#define BESIDE 8           /* blocks on the way from a scale to the weight that it is for */

static bool is_smaller_form(const struct vt_allocation *weight, const struct vt_allocation *block)
{
    return weight->bytes == 2 * block->bytes || weight->bytes == 4 * block->bytes ||
           weight->bytes == 8 * block->bytes;
}

static bool is_kept(const struct vt_phases *phases, const struct vt_allocation *block, uint64_t life)
{
    return (life & VT_LIFE(PERSISTENT)) && !(life & VT_LIFE(REPLACES_PARAMETER)) &&
           vt_holds_tensors(phases, block);
}

/* The innermost Python function, UINT32_MAX = none. */
static uint32_t function_of(const struct vt_replay *replay, const struct vt_allocation *block)
{
    const struct vt_trace_stack *stack = &replay->trace->stacks[block->stack_id];
    return stack->python_count > 0 ? stack->python[0].code_id : UINT32_MAX;
}

/* What the function that made a smaller form made before it and after it, and keeps. */
static void mark_beside(const struct vt_replay *replay, const struct vt_phases *phases, size_t form,
                        uint64_t *lives)
{
    uint32_t function = function_of(replay, &replay->allocations[form]);
    size_t first = form > BESIDE ? form - BESIDE : 0;
    for (size_t i = first; function != UINT32_MAX && i < replay->allocation_count && i <= form + BESIDE;
         i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (function_of(replay, block) == function && is_kept(phases, block, lives[i]))
            lives[i] |= VT_LIFE(REPLACES_PARAMETER);
    }
}

void vt_replacements_find(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                          const struct vt_phases *phases, uint64_t *lives)
{
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *weight = &replay->allocations[i];
        if (weight->free_event == VT_NEVER || !vt_holds_tensors(phases, weight) ||
            !(sites->items[weight->stack_id].traits & VT_TRAIT(MODULE_APPLY)) ||
            (lives[i] & VT_LIFE(PERSISTENT)))
            continue;
        size_t end = vt_made_from(replay, weight->free_event);
        for (size_t k = end; k-- > i + 1 && end - k <= REPLACED_WITHIN;) {
            const struct vt_allocation *block = &replay->allocations[k];
            if (!is_smaller_form(weight, block) || !is_kept(phases, block, lives[k]))
                continue;
            lives[k] |= VT_LIFE(REPLACES_PARAMETER);
            break;
        }
    }
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (lives[i] & VT_LIFE(REPLACES_PARAMETER) &&
            !(sites->items[replay->allocations[i].stack_id].traits & VT_TRAIT(MODULE_APPLY)))
            mark_beside(replay, phases, i, lives);
}
