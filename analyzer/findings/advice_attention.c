/* Advice on attention that makes its weights only to give them back. */
#include <stdio.h>
#include <string.h>

#include "base/module_names.h"
#include "findings/adviser.h"

/* What is still there in backward, or in another step, somebody keeps. */
static bool is_kept(const struct vt_adviser *adviser, const struct vt_allocation *block)
{
    return block->free_event == VT_NEVER ||
           adviser->passes[block->free_event] != adviser->passes[block->alloc_event] ||
           vt_span_at(adviser->attribution, block->free_event)->step !=
               vt_span_at(adviser->attribution, block->alloc_event)->step;
}

struct weights {
    struct vt_index sizes; /* of all weights */
    uint32_t largest;      /* allocation; VT_NEVER = none */
    bool averaged, saved;  /* their average was made; a graph kept them */
};

/* False if somebody may read them: their average is kept or has a gradient, or without one a graph has them.
 */
static bool find_weights(const struct vt_adviser *adviser, struct weights *weights)
{
    const struct vt_allocation *blocks = adviser->replay->allocations;
    for (uint32_t i = 0; i < adviser->replay->allocation_count; i++) {
        uint64_t traits = vt_forward_traits(adviser, i);
        bool backward = adviser->attribution->labels[i].phase == VT_PHASE_BACKWARD;
        if (!vt_is_of_script(adviser, i))
            continue;
        if (traits & VT_TRAIT(ATTENTION_AVERAGE)) {
            if (backward || is_kept(adviser, &blocks[i]))
                return false;
            weights->averaged = true;
        }
        if (backward || !(traits & VT_TRAIT(ATTENTION_WEIGHTS)))
            continue;
        weights->saved |= is_kept(adviser, &blocks[i]);
        vt_index_put(&weights->sizes, blocks[i].bytes, 1);
        if (weights->largest == VT_NEVER || blocks[i].bytes > blocks[weights->largest].bytes)
            weights->largest = i;
    }
    return weights->largest != VT_NEVER && (weights->averaged || !weights->saved);
}

void vt_advise_need_weights(struct vt_adviser *adviser)
{
    const struct vt_replay *replay = adviser->replay;
    struct weights weights = {.largest = VT_NEVER};
    char bytes[24], pattern[160] = "";
    bool found = find_weights(adviser, &weights);
    for (uint32_t i = 0; i < replay->allocation_count && found; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        uint64_t traits = vt_forward_traits(adviser, i);
        bool has_size = traits & VT_TRAIT(ATTENTION_PRODUCT) && vt_index_has(&weights.sizes, block->bytes);
        if (vt_is_of_script(adviser, i) &&
            (has_size || traits & (VT_TRAIT(ATTENTION_WEIGHTS) | VT_TRAIT(ATTENTION_AVERAGE))))
            vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event, block->bytes);
    }
    vt_index_free(&weights.sizes);
    if (!found)
        return;
    const struct vt_allocation *largest = &replay->allocations[weights.largest];
    const char *module = adviser->attribution->labels[weights.largest].module;
    if (!module || !vt_module_pattern(module, strlen(module), pattern, sizeof pattern))
        snprintf(pattern, sizeof pattern, "%.150s", module ? module : "this attention");
    vt_advise(adviser, VT_ADVICE_NEED_WEIGHTS, vt_whatif_saves(&adviser->whatif),
              (struct vt_advice_subject){.stack_id = largest->stack_id, .subject = pattern},
              &vt_remedy_need_weights,
              "Attention makes its weights (up to %s) because they were requested, and nothing reads them",
              vt_format_bytes(largest->bytes, bytes));
}
