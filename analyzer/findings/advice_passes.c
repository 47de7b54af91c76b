/* Advice on several forward passes before one backward pass: where no pass needs another, backward after each
 * of them would keep one graph at a time.
 *
 * The passes are found by what each makes again, on the same stack. Backward goes through them from the last
 * to the first, and its nodes have the numbers that forward gave them. If what it made for one pass is needed
 * in the next, other than the gradients of parameters, then a pass used values of another. */
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "findings/adviser.h"
#include "format/allocator.h"

#define PASSES_LIMIT 128u
#define SMALL_BYTES 4096u /* values of losses */

struct passes {
    struct vt_adviser *adviser;
    uint64_t *sizes; /* of parameters, gradients and copies for autocast, in order */
    size_t size_count, size_capacity;
    uint32_t starts[PASSES_LIMIT];  /* allocations with which the passes begin */
    uint32_t cuts[PASSES_LIMIT];    /* events from which on they are the current ones */
    uint64_t numbers[PASSES_LIMIT]; /* of the last nodes before them */
    uint32_t count;
    struct vt_backward backward;
    uint32_t most, stack_id; /* of what is advised */
    uint64_t kept;           /* by the passes of one step */
};

static const struct vt_allocation *block_at(const struct passes *passes, uint32_t index)
{
    return &passes->adviser->replay->allocations[index];
}

static int compare_sizes(const void *left, const void *right)
{
    return vt_order(*(const uint64_t *)left, *(const uint64_t *)right);
}

static void list_sizes(struct passes *passes)
{
    const struct vt_adviser *adviser = passes->adviser;
    for (uint32_t i = 0; i < adviser->replay->allocation_count; i++) {
        const struct vt_label *label = &adviser->attribution->labels[i];
        if (label->category == VT_CATEGORY_PARAMETER || label->category == VT_CATEGORY_GRADIENT ||
            vt_stack_traits_of(adviser->attribution, block_at(passes, i)->stack_id)->traits &
                VT_TRAIT(AUTOCAST))
            VT_APPEND(passes->sizes, passes->size_count, passes->size_capacity,
                      block_at(passes, i)->bytes - label->rounding_bytes);
    }
    vt_sort(passes->sizes, passes->size_count, sizeof *passes->sizes, compare_sizes);
}

/* The size of the gradient that a block may be; 0 = none. The allocator leaves a large block a rest. */
static uint64_t gradient_size(const struct passes *passes, uint64_t bytes)
{
    uint64_t next = bytes + 1;
    size_t count =
        vt_lower_bound(passes->sizes, passes->size_count, sizeof *passes->sizes, &next, compare_sizes);
    uint64_t size = count ? passes->sizes[count - 1] : 0;
    return bytes - size <= (size > VT_TORCH_SMALL_BYTES ? VT_TORCH_SMALL_BYTES : VT_TORCH_ROUND_BYTES) ? size
                                                                                                       : 0;
}

static bool is_made_with_node(const struct passes *passes, uint32_t index)
{
    return vt_made_node(passes->adviser->attribution, block_at(passes, index)->alloc_event);
}

/* A forward's value that this backward frees. */
static bool is_of_graph(const struct passes *passes, uint32_t index)
{
    const struct vt_allocation *block = block_at(passes, index);
    return vt_is_of_script(passes->adviser, index) &&
           block->free_event >= passes->backward.span->first_event &&
           block->free_event <= passes->backward.span->last_event && is_made_with_node(passes, index);
}

/* The passes begin with the first stack that made something for the graph more than once. */
static void find_starts(struct passes *passes)
{
    struct vt_index seen = {0};
    uint32_t stack_id = 0;
    passes->count = 0;
    for (uint32_t i = passes->backward.first; i < passes->backward.begin && !stack_id; i++)
        if (is_of_graph(passes, i) && block_at(passes, i)->bytes > SMALL_BYTES &&
            vt_index_add(&seen, block_at(passes, i)->stack_id, i) != i)
            stack_id = block_at(passes, i)->stack_id;
    vt_index_free(&seen);
    for (uint32_t i = passes->backward.first;
         i < passes->backward.begin && stack_id && passes->count < PASSES_LIMIT; i++)
        if (block_at(passes, i)->stack_id == stack_id && is_of_graph(passes, i))
            passes->starts[passes->count++] = i;
}

/* The first allocation of a pass that begins at `start`, which is after `before`: the one after the last
 * value that the script made itself of the pass before; without any, what comes without a node is its input.
 */
static uint32_t first_of_pass(const struct passes *passes, uint32_t start, uint32_t before)
{
    uint32_t index = start;
    while (--index > before)
        if (is_made_with_node(passes, index) &&
            !(vt_forward_traits(passes->adviser, index) & VT_TRAIT(MODULE)))
            return index + 1;
    for (index = start; index > before + 1 && !is_made_with_node(passes, index - 1);)
        index--;
    return index;
}

static void find_cuts(struct passes *passes)
{
    for (uint32_t k = 1; k < passes->count; k++) {
        uint32_t index = first_of_pass(passes, passes->starts[k], passes->starts[k - 1]);
        passes->cuts[k] = block_at(passes, index)->alloc_event;
        passes->numbers[k] = block_at(passes, index - 1)->sequence | 1;
    }
}

/* The pass whose node made a block in backward. */
static uint32_t pass_of_node(const struct passes *passes, uint32_t index)
{
    uint64_t number = block_at(passes, index)->sequence;
    uint32_t pass = passes->count - 1;
    while (pass > 0 && number <= passes->numbers[pass])
        pass--;
    return pass;
}

static bool has_number(const struct passes *passes, uint32_t index)
{
    return block_at(passes, index)->sequence > VT_SEQUENCE_NO_NUMBER &&
           passes->adviser->attribution->labels[index].forward_stack_id;
}

/* The event at which backward goes on to an earlier pass, for each; false if it goes back and forth. */
static bool find_turns(const struct passes *passes, uint32_t *turns)
{
    uint32_t pass = passes->count - 1;
    for (uint32_t i = passes->backward.begin; i < passes->backward.end; i++) {
        if (!has_number(passes, i))
            continue;
        uint32_t own = pass_of_node(passes, i);
        if (own > pass)
            return false;
        for (; pass > own; pass--)
            turns[pass - 1] = block_at(passes, i)->alloc_event;
    }
    return pass == 0;
}

/* Whether something other than a parameter's gradient lives from one pass to the next, in backward. Each pass
 * makes such a gradient, at the same line, and those of two passes are added up. */
static bool are_joined(const struct passes *passes, const uint32_t *turns)
{
    struct vt_index made = {0}; /* line, size and pass → the first allocation there */
    bool joined = false;
    for (uint32_t i = passes->backward.end; i-- > passes->backward.begin && !joined;) {
        const struct vt_allocation *block = block_at(passes, i);
        if (block->bytes <= SMALL_BYTES || !has_number(passes, i) || !vt_is_of_script(passes->adviser, i))
            continue;
        uint64_t size = gradient_size(passes, block->bytes),
                 key = vt_mix(vt_line_of(passes->adviser, i) + 1, size);
        uint32_t pass = pass_of_node(passes, i);
        uint32_t other = size && pass ? vt_index_get(&made, vt_mix(key, pass - 1)) : VT_INDEX_NONE;
        joined = pass > 0 && block->free_event > turns[pass - 1] &&
                 passes->adviser->attribution->labels[i].category != VT_CATEGORY_GRADIENT &&
                 (other == VT_INDEX_NONE || block->free_event <= block_at(passes, other)->alloc_event);
        vt_index_put(&made, vt_mix(key, pass), i);
    }
    vt_index_free(&made);
    return joined;
}

/* Backward of a pass frees its graph before the next pass begins, but needs it. Gradients, and a workspace
 * that stays, are there from the second pass on; gradients of one pass are added at once to them. */
static void separate(struct passes *passes, const uint32_t *turns)
{
    struct vt_adviser *adviser = passes->adviser;
    uint64_t kept = 0;
    for (uint32_t i = passes->backward.first, pass = 0; i < passes->backward.begin; i++) {
        const struct vt_allocation *block = block_at(passes, i);
        while (pass + 1 < passes->count && block->alloc_event >= passes->cuts[pass + 1])
            pass++;
        if (pass + 1 == passes->count || !vt_is_of_script(passes->adviser, i) ||
            block->free_event < passes->backward.span->first_event ||
            block->free_event > passes->backward.span->last_event)
            continue;
        kept += block->bytes;
        vt_whatif_less(&adviser->whatif, block, passes->cuts[pass + 1], turns[pass], block->bytes);
    }
    for (uint32_t i = passes->backward.begin; i < passes->backward.end; i++) {
        const struct vt_allocation *block = block_at(passes, i);
        const uint8_t category = adviser->attribution->labels[i].category;
        if (!vt_whatif_counts(&adviser->whatif, block))
            continue;
        uint32_t pass = has_number(passes, i) ? pass_of_node(passes, i) : 0;
        if (block->free_event > passes->backward.span->last_event &&
            (category == VT_CATEGORY_GRADIENT || category == VT_CATEGORY_WORKSPACE))
            vt_whatif_less(&adviser->whatif, block, passes->cuts[1], block->alloc_event, 0 - block->bytes);
        else if (pass > 0 && block->free_event > turns[pass - 1])
            vt_whatif_less(&adviser->whatif, block, block->alloc_event + 1, block->free_event, block->bytes);
    }
    if (kept > passes->kept) {
        passes->kept = kept;
        passes->most = passes->count;
        passes->stack_id = block_at(passes, passes->starts[0])->stack_id;
    }
}

static void read_backward(struct passes *passes)
{
    uint32_t turns[PASSES_LIMIT];
    find_starts(passes);
    if (passes->count < 2 || passes->count == PASSES_LIMIT)
        return;
    find_cuts(passes);
    if (find_turns(passes, turns) && !are_joined(passes, turns))
        separate(passes, turns);
}

void vt_advise_backward_each(struct vt_adviser *adviser)
{
    struct passes *passes = vt_allocate_zeros(1, sizeof *passes);
    char bytes[24], subject[64];
    passes->adviser = adviser;
    list_sizes(passes);
    while (vt_next_backward(adviser, &passes->backward))
        read_backward(passes);
    snprintf(subject, sizeof subject, "of the %u forward passes", passes->most);
    if (passes->most)
        vt_advise(adviser, VT_ADVICE_BACKWARD_EACH, vt_whatif_saves(&adviser->whatif),
                  (struct vt_advice_subject){.stack_id = passes->stack_id, .subject = subject},
                  &vt_remedy_backward_each,
                  "One backward pass follows %u forward passes, none of which uses another: all but the last "
                  "keep %s until then",
                  passes->most, vt_format_bytes(passes->kept, bytes));
    free(passes->sizes);
    free(passes);
}
