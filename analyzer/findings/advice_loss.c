/* Advice on the loss of a choice among many classes, whose scores may be larger than all else. */
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "findings/adviser.h"

#define CHUNKS 8u
#define WORTH_PART 50u /* of the peak: loss values that are less are not looked at */
#define NEAR 64u       /* allocations back, to find the layer that made the scores */

struct loss {
    struct vt_adviser *adviser;
    uint64_t *sizes; /* by line: of the loss values made there, or of the scores they are made of; 0 = none */
    uint64_t *heads; /* the same of the layer that makes the scores */
    uint32_t largest; /* allocation of such a layer; VT_NEVER = none */
};

/* As large, at half precision or without the last row of each sample. */
static bool is_similar(uint64_t bytes, uint64_t size)
{
    return bytes * 5 >= size * 2 && bytes * 10 <= size * 11;
}

static bool is_of_forward(const struct loss *loss, uint32_t index)
{
    uint8_t phase = loss->adviser->attribution->labels[index].phase;
    return (phase == VT_PHASE_FORWARD || phase == VT_PHASE_EVAL) && vt_is_of_script(loss->adviser, index);
}

/* From loss values of this size back to a linear layer, through what is of their size: conversions, copies.
 * Marks their stacks. */
static void follow_scores(struct loss *loss, uint32_t first, uint64_t size)
{
    const struct vt_allocation *blocks = loss->adviser->replay->allocations;
    uint32_t end = first > NEAR ? first - NEAR : 0, head = first;
    while (head > end) {
        const struct vt_allocation *block = &blocks[--head];
        bool similar = is_of_forward(loss, head) && is_similar(block->bytes, size);
        if (!similar && block->bytes * 8 > size)
            return;
        if (similar && vt_forward_traits(loss->adviser, head) & VT_TRAIT(LINEAR))
            break;
        if (head == end)
            return;
    }
    if (head == first || !(vt_forward_traits(loss->adviser, head) & VT_TRAIT(LINEAR)) ||
        !loss->adviser->attribution->labels[head].module)
        return;
    loss->sizes[vt_line_of(loss->adviser, first)] = size;
    for (uint32_t i = head; i < first; i++)
        if (is_of_forward(loss, i) && is_similar(blocks[i].bytes, size))
            loss->sizes[vt_line_of(loss->adviser, i)] = size;
    loss->heads[vt_line_of(loss->adviser, head)] = size;
    if (loss->largest == VT_NEVER || blocks[head].bytes > blocks[loss->largest].bytes)
        loss->largest = head;
}

/* Backward makes the loss again: it is in chunks, or could be. */
static bool is_checkpointed(const struct loss *loss)
{
    const uint64_t both = VT_TRAIT(CLASS_LOSS) | VT_TRAIT(RECOMPUTE);
    const struct vt_adviser *adviser = loss->adviser;
    for (uint32_t i = 0; i < adviser->replay->allocation_count; i++)
        if ((vt_stack_traits_of(adviser->attribution, adviser->replay->allocations[i].stack_id)->traits &
             both) == both)
            return true;
    return false;
}

static void find_losses(struct loss *loss)
{
    const struct vt_replay *replay = loss->adviser->replay;
    if (is_checkpointed(loss))
        return;
    for (uint32_t i = 0, end; i < replay->allocation_count; i = end) {
        uint64_t size = 0;
        for (end = i;
             end < replay->allocation_count && vt_forward_traits(loss->adviser, end) & VT_TRAIT(CLASS_LOSS) &&
             is_of_forward(loss, end);
             end++)
            size = replay->allocations[end].bytes > size ? replay->allocations[end].bytes : size;
        if (size * WORTH_PART >= loss->adviser->whatif.peak_bytes && size)
            follow_scores(loss, i, size);
        end = end > i ? end : i + 1;
    }
}

/* The gradient of the layer's weight: each chunk makes one, and adds it to those before. */
static void add_gradient(struct loss *loss, uint32_t gradient, uint32_t since)
{
    struct vt_whatif *whatif = &loss->adviser->whatif;
    const struct vt_allocation *block = &loss->adviser->replay->allocations[gradient];
    vt_whatif_less(whatif, block, since, block->alloc_event, 0 - block->bytes);
}

/* A chunk's share is left of everything of the scores' size: in backward, of all until the layer's own. */
static void divide(struct loss *loss)
{
    struct vt_adviser *adviser = loss->adviser;
    const struct vt_replay *replay = adviser->replay;
    uint32_t since = 0; /* event: backward of a loss has begun */
    uint64_t size = 0;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        const struct vt_label *label = &adviser->attribution->labels[i];
        bool backward = label->phase == VT_PHASE_BACKWARD;
        uint32_t line = vt_line_of(adviser, i);
        if (!vt_is_of_script(adviser, i) || (!backward && !is_of_forward(loss, i)))
            continue;
        if (backward && loss->sizes[line] && !size) {
            size = loss->sizes[line];
            since = block->alloc_event;
        }
        if ((backward ? size : loss->sizes[line]) &&
            is_similar(block->bytes, backward ? size : loss->sizes[line]))
            vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event,
                           block->bytes - block->bytes / CHUNKS);
        else if (backward && size && loss->heads[line] && label->category == VT_CATEGORY_GRADIENT)
            add_gradient(loss, i, since);
        size = backward && !loss->heads[line] ? size : 0;
    }
}

void vt_advise_chunked_loss(struct vt_adviser *adviser)
{
    const struct vt_trace *trace = adviser->replay->trace;
    struct loss loss = {.adviser = adviser,
                        .sizes = vt_allocate_zeros(trace->stack_count + 1, sizeof *loss.sizes),
                        .heads = vt_allocate_zeros(trace->stack_count + 1, sizeof *loss.heads),
                        .largest = VT_NEVER};
    char bytes[24], subject[200];
    find_losses(&loss);
    if (loss.largest != VT_NEVER) {
        const struct vt_allocation *scores = &adviser->replay->allocations[loss.largest];
        const char *module = adviser->attribution->labels[loss.largest].module;
        divide(&loss);
        snprintf(subject, sizeof subject, "%.150s in %u chunks", module ? module : "this layer", CHUNKS);
        vt_advise(
            adviser, VT_ADVICE_CHUNKED_LOSS, vt_whatif_saves(&adviser->whatif),
            (struct vt_advice_subject){.stack_id = scores->stack_id, .subject = subject},
            &vt_remedy_chunked_loss,
            "The logits (%s), their log-softmax and its gradients exist for all rows at once. Chunks of "
            "rows need one part at a time",
            vt_format_bytes(scores->bytes, bytes));
    }
    free(loss.sizes);
    free(loss.heads);
}
