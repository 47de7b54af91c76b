/* Advice on large results that a variable keeps through backward, which does not need them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "findings/adviser.h"

struct keeping {
    struct vt_adviser *adviser;
    struct vt_backward backward;
    uint32_t *gradients; /* by line: blocks that this backward made for it */
    uint32_t largest;    /* allocation that is kept; VT_NEVER = none */
};

static const struct vt_allocation *block_at(const struct keeping *keeping, uint32_t index)
{
    return &keeping->adviser->replay->allocations[index];
}

static uint64_t traits_of(const struct keeping *keeping, uint32_t index)
{
    return vt_stack_traits_of(keeping->adviser->attribution, block_at(keeping, index)->stack_id)->traits;
}

static bool has_node(const struct keeping *keeping, uint32_t index)
{
    return vt_made_node(keeping->adviser->attribution, block_at(keeping, index)->alloc_event);
}

/* Freed after this backward, and before the one after the next. */
static bool is_candidate(const struct keeping *keeping, uint32_t index)
{
    const struct vt_adviser *adviser = keeping->adviser;
    const struct vt_allocation *block = block_at(keeping, index);
    uint8_t category = adviser->attribution->labels[index].category;
    return vt_whatif_counts(&adviser->whatif, block) && vt_is_worth_advice(adviser->advices, block->bytes) &&
           (category == VT_CATEGORY_ACTIVATION || category == VT_CATEGORY_TEMPORARY) &&
           block->free_event != VT_NEVER && block->free_event > keeping->backward.span->last_event &&
           adviser->passes[block->free_event] <= adviser->passes[block->alloc_event] + 2 &&
           has_node(keeping, index);
}

/* Backward reads it neither as a result nor as what a later operator was given. */
static bool is_unread(const struct keeping *keeping, uint32_t index)
{
    if (traits_of(keeping, index) & VT_TRAIT(KEEPS_RESULT))
        return false;
    for (uint32_t i = index + 1; i < keeping->backward.begin; i++) {
        uint64_t traits = traits_of(keeping, i);
        bool factor = traits & VT_TRAIT(FACTOR) && keeping->gradients[vt_line_of(keeping->adviser, i)] == 1;
        if (has_node(keeping, i) && !(traits & VT_TRAIT(INPUT_FREE)) && !factor)
            return false;
    }
    return true;
}

/* Nothing needs them from the last value of forward on. */
static void read_backward(struct keeping *keeping)
{
    for (uint32_t i = keeping->backward.begin; i < keeping->backward.end; i++)
        keeping->gradients[vt_line_of(keeping->adviser, i)] += vt_is_of_script(keeping->adviser, i);
    uint32_t last_made =
        keeping->backward.begin ? block_at(keeping, keeping->backward.begin - 1)->alloc_event : 0;
    for (uint32_t i = keeping->backward.first; i < keeping->backward.begin; i++) {
        if (!is_candidate(keeping, i) || !is_unread(keeping, i))
            continue;
        vt_whatif_less(&keeping->adviser->whatif, block_at(keeping, i), last_made + 1,
                       block_at(keeping, i)->free_event, block_at(keeping, i)->bytes);
        if (keeping->largest == VT_NEVER ||
            block_at(keeping, i)->bytes > block_at(keeping, keeping->largest)->bytes)
            keeping->largest = i;
    }
    for (uint32_t i = keeping->backward.begin; i < keeping->backward.end; i++)
        keeping->gradients[vt_line_of(keeping->adviser, i)] = 0;
}

void vt_advise_kept(struct vt_adviser *adviser)
{
    const struct vt_trace *trace = adviser->replay->trace;
    struct keeping keeping = {.adviser = adviser,
                              .gradients =
                                  vt_allocate_zeros(trace->stack_count + 1, sizeof *keeping.gradients),
                              .largest = VT_NEVER};
    char bytes[24], subject[200];
    while (vt_next_backward(adviser, &keeping.backward))
        read_backward(&keeping);
    if (keeping.largest != VT_NEVER) {
        const char *module = adviser->attribution->labels[keeping.largest].module;
        const struct vt_inspection_holder *holder = vt_holder_of(adviser->attribution, keeping.largest);
        snprintf(subject, sizeof subject, module ? "the output of %.150s" : "this result", module);
        vt_advise(adviser, VT_ADVICE_KEPT, vt_whatif_saves(&adviser->whatif),
                  (struct vt_advice_subject){.stack_id = block_at(&keeping, keeping.largest)->stack_id,
                                             .subject = subject},
                  &vt_remedy_kept, "%s%.200s keeps %s through backward, which does not need it",
                  holder ? "" : "A variable", holder ? holder->holder : "",
                  vt_format_bytes(block_at(&keeping, keeping.largest)->bytes, bytes));
    }
    free(keeping.gradients);
}
