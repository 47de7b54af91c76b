/* Advice on copies of weights that stay on the GPU. */
#include <string.h>

#include "diagnose/adviser.h"

/* Who keeps a block, as the latest census saw it; NULL = unknown. */
static const struct vt_inspection_holder *holder_of(const struct vt_attribution *attribution,
                                                    uint32_t allocation)
{
    for (size_t i = 0; i < attribution->held_count; i++)
        if (attribution->held[i].allocation == allocation)
            return attribution->held[i].holder;
    return NULL;
}

void vt_advise_copies(struct vt_adviser *adviser)
{
    const struct vt_replay *replay = adviser->replay;
    const struct vt_attribution *attribution = adviser->attribution;
    uint64_t at_peak = 0, largest = 0;
    uint32_t chosen = 0;
    char bytes[24];
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (!vt_whatif_counts(&adviser->whatif, block) ||
            attribution->labels[i].category != VT_CATEGORY_CHECKPOINT_COPY)
            continue;
        vt_whatif_less(&adviser->whatif, block->alloc_event, block->free_event, block->bytes);
        if (!vt_alive_at(block, adviser->whatif.peak_event))
            continue;
        at_peak += block->bytes;
        if (block->bytes > largest) {
            largest = block->bytes;
            chosen = i;
        }
    }
    uint64_t saved = vt_whatif_saves(&adviser->whatif);
    if (at_peak == 0)
        return;
    const struct vt_inspection_holder *holder = holder_of(attribution, chosen);
    uint32_t stack_id = replay->allocations[chosen].stack_id;
    bool loaded = vt_stack_traits_of(attribution, stack_id)->traits & VT_TRAIT(LOADED);
    vt_advise(adviser, VT_ADVICE_COPIES, saved, stack_id, "",
              loaded ? vt_remedy_load_on_host : vt_remedy_copy_on_host,
              "A checkpoint copy%s%.200s takes %s at the peak beside the model. It is needed there only if "
              "each step reads it (an average, an anchor)",
              holder ? ", kept by " : "", holder ? holder->holder : "", vt_format_bytes(at_peak, bytes));
}
