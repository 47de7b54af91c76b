/* Causes of an out of memory: models that are there beside the one that is used. */
#include "findings/causes_models.h"

#include "attribute/stack_traits.h"
#include "base/index.h"
#include "findings/causes.h"

#include <inttypes.h>
#include <string.h>

#define IDLE_STEPS 3u /* a model that runs now and then may run again */

/* ---- A second model ---- */

static uint64_t lines_of(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id < trace->stack_count ? stack_id : 0];
    uint64_t key = stack->python_count;
    for (uint32_t i = 0; i < stack->python_count; i++)
        key = vt_mix(key, vt_trace_line_key(trace, &stack->python[i]));
    return key;
}

/* Where models are functions, each step makes new parameters. */
static bool may_be_modules(const struct vt_cause_search *search, uint32_t stack_id)
{
    return stack_id < search->trace->stack_count &&
           (search->trace->stacks[stack_id].native_count == 0 ||
            (vt_stack_traits_of(search->attribution, stack_id)->traits & VT_TRAIT(MODULAR)));
}

/* Parameters that the same lines made before training and again in it: the earlier ones, with the gradients
 * and states that are as old. A function that makes models may be called from another line for the second,
 * which is about as large then: a block that a model gets in training is smaller than what is there. */
void vt_cause_second_model(struct vt_cause_search *search)
{
    const struct vt_label *labels = search->attribution->labels;
    const struct vt_allocation *allocations = search->replay->allocations;
    const struct vt_counted *there = &search->there;
    uint32_t latest = 0, begin = VT_NEVER, stack_id = 0;
    uint64_t bytes = 0, weights = 0, similar = 0, made = 0;
    struct vt_index lines = {0}, own_lines = {0};

    for (size_t i = 0; i < there->count; i++) {
        const struct vt_label *label = &labels[there->items[i]];
        if (label->category == VT_CATEGORY_PARAMETER && label->step > latest)
            latest = label->step;
    }
    for (size_t i = 0; i < there->count && latest; i++) {
        const struct vt_allocation *block = &allocations[there->items[i]];
        const struct vt_label *label = &labels[there->items[i]];
        if (label->category != VT_CATEGORY_PARAMETER || label->step != latest ||
            !may_be_modules(search, block->stack_id))
            continue;
        begin = block->alloc_event < begin ? block->alloc_event : begin;
        stack_id = block->stack_id;
        made += block->bytes;
        vt_index_put(&lines, lines_of(search->trace, stack_id), 1);
        vt_index_put(&own_lines, vt_trace_own_line_key(search->trace, stack_id), 1);
    }
    for (size_t i = 0; i < there->count && begin != VT_NEVER; i++) {
        const struct vt_allocation *block = &allocations[there->items[i]];
        const uint8_t category = labels[there->items[i]].category;
        if (block->alloc_event >= begin)
            continue;
        if (category == VT_CATEGORY_PARAMETER &&
            vt_index_has(&lines, lines_of(search->trace, block->stack_id)))
            weights += block->bytes;
        if (category == VT_CATEGORY_PARAMETER &&
            vt_index_has(&own_lines, vt_trace_own_line_key(search->trace, block->stack_id)))
            similar += block->bytes;
        if (category == VT_CATEGORY_PARAMETER || category == VT_CATEGORY_GRADIENT ||
            category == VT_CATEGORY_OPTIMIZER_STATE)
            bytes += block->bytes;
    }
    vt_index_free(&lines);
    vt_index_free(&own_lines);
    if (weights || (similar && similar <= 2 * made))
        vt_cause_add(search, VT_CAUSE_SECOND_MODEL, bytes, stack_id,
                     "the same lines created a second model in step %" PRIu32
                     "; the first is still alive with its gradients and optimizer state",
                     latest);
}

/* ---- A model that no step uses any longer ---- */

struct use {
    struct vt_index last;    /* by module: the last step in which it made something */
    struct vt_index trained; /* modules with gradients or optimizer state */
};

static uint64_t key_of(const char *module)
{
    return vt_hash_bytes(module, strlen(module), VT_HASH_START);
}

static void read_use(const struct vt_cause_search *search, struct use *use)
{
    for (size_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_label *label = &search->attribution->labels[i];
        if (!label->module || search->replay->allocations[i].alloc_event > search->refusal->event_index)
            continue;
        if (label->category == VT_CATEGORY_GRADIENT || label->category == VT_CATEGORY_OPTIMIZER_STATE)
            vt_index_put(&use->trained, key_of(label->module), 1);
        else if (label->phase == VT_PHASE_FORWARD || label->phase == VT_PHASE_EVAL)
            vt_index_put(&use->last, key_of(label->module), label->step);
    }
}

/* It ran, but not in the last steps, and is not trained (an expert may wait long for its turn). */
static bool is_idle(const struct vt_cause_search *search, const struct use *use, uint32_t index,
                    uint32_t *last_step)
{
    const struct vt_label *label = &search->attribution->labels[index];
    if (label->category != VT_CATEGORY_PARAMETER || label->evidence != VT_EVIDENCE_EXACT || !label->module)
        return false;
    *last_step = vt_index_get(&use->last, key_of(label->module));
    return *last_step != VT_INDEX_NONE && search->refusal->step >= *last_step + IDLE_STEPS &&
           !vt_index_has(&use->trained, key_of(label->module));
}

/* Only where nothing else is found: it may be wanted later. */
void vt_cause_idle_model(struct vt_cause_search *search)
{
    struct use use = {0};
    uint64_t bytes = 0, all = 0;
    uint32_t latest = 0, stack_id = 0, step;
    const char *first = NULL, *last = NULL;
    if (!search->shortage->cause_count)
        read_use(search, &use);
    for (size_t k = 0; k < search->there.count && use.last.count; k++) {
        const uint32_t i = search->there.items[k];
        const struct vt_allocation *block = &search->replay->allocations[i];
        all += search->attribution->labels[i].category == VT_CATEGORY_PARAMETER ? block->bytes : 0;
        if (!is_idle(search, &use, i, &step))
            continue;
        bytes += block->bytes;
        latest = step > latest ? step : latest;
        stack_id = block->stack_id;
        last = search->attribution->labels[i].module;
        first = first ? first : last;
    }
    if (first && bytes < all && bytes >= search->shortage->missing_bytes)
        vt_cause_add(search, VT_CAUSE_IDLE_MODEL, bytes, stack_id,
                     "an idle model, not used since step %" PRIu32 ": the weights of %.80s … %.80s", latest,
                     first, last);
    vt_index_free(&use.last);
    vt_index_free(&use.trained);
}
