/* Blocks that an inspection found under names that tell what they are. A name is one witness: it decides
 * where rules only guess; with the size of a parameter it is more than they know. */
#include "attribute/counted_sizes.h"
#include "attribute/named.h"

#include "attribute/owners.h"
#include "attribute/rules.h"
#include "trace/frameworks.h"

/* The sizes of parameters and gradients, and of those in twice as many bits. */
static void index_sizes(const struct vt_attribution *attribution, const struct vt_phases *phases,
                        struct vt_index *sizes)
{
    const struct vt_replay *replay = attribution->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_label *label = &attribution->labels[i];
        if (!vt_holds_tensors(phases, &replay->allocations[i]) ||
            (label->category != VT_CATEGORY_PARAMETER && label->category != VT_CATEGORY_GRADIENT))
            continue;
        vt_index_put(sizes, vt_size_bucket(replay->allocations[i].bytes), 1);
        vt_index_put(sizes, vt_size_bucket(2 * replay->allocations[i].bytes), 1);
    }
}

static bool is_kept(uint64_t life)
{
    return life & (VT_LIFE(OUTLIVES_STEP) | VT_LIFE(AT_NEXT_BACKWARD) | VT_LIFE(CUT));
}

/* Whether the name may be right, if a parameter has the size or none. Inputs are copied or made, as state is.
 */
static bool may_be(enum vt_category named, const struct vt_label *label, uint64_t life, bool has_size)
{
    if (label->evidence != VT_EVIDENCE_WEAK && !(has_size && label->category == VT_CATEGORY_INPUT))
        return false;
    return named == VT_CATEGORY_GRADIENT && label->category != VT_CATEGORY_OTHER ? has_size : is_kept(life);
}

static void set_category(const struct vt_held *held, struct vt_placed *placed, struct vt_label *label,
                         enum vt_category category)
{
    label->category = (uint8_t)category;
    label->evidence = VT_EVIDENCE_WEAK;
    label->rule = VT_RULE_INSPECTION;
    placed->inspection_of[held->allocation] = held->inspection;
}

void vt_named_judge(const struct vt_attribution *attribution, const struct vt_phases *phases,
                    const uint64_t *lives, struct vt_label *labels, struct vt_placed *placed)
{
    struct vt_index sizes = {0};
    index_sizes(attribution, phases, &sizes);
    for (size_t i = 0; i < attribution->held_count; i++) {
        const struct vt_held *held = &attribution->held[i];
        struct vt_label *label = &labels[held->allocation];
        uint64_t life = lives[held->allocation];
        if (placed->inspection_of[held->allocation] != VT_NEVER ||
            label->category == VT_CATEGORY_CHECKPOINT_COPY)
            continue; /* copies keep the names of what they copy */
        enum vt_category named =
            phases->pass_count > 0 ? vt_named_category(held->holder->way) : VT_CATEGORY_UNKNOWN;
        bool has_size =
            vt_index_get(&sizes, vt_size_bucket(attribution->replay->allocations[held->allocation].bytes)) !=
            VT_INDEX_NONE;
        if (label->is_copy && label->category == VT_CATEGORY_OTHER)
            set_category(held, placed, label, VT_CATEGORY_CHECKPOINT_COPY);
        else if (named != VT_CATEGORY_UNKNOWN && may_be(named, label, life, has_size))
            set_category(held, placed, label, named);
    }
    vt_index_free(&sizes);
}
