/* Causes of an out of memory that lie in the step itself: larger inputs than in the steps before, or results
 * that an evaluation keeps. */
#include "findings/causes_steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/format.h"
#include "base/index.h"
#include "base/peak.h"
#include "findings/causes.h"

#define STEP_PARTS "activations, inputs and temporaries, including the failed request"
#define LEAST_KEPT 4u
#define LARGER_BY 4u /* a part: inputs that vary by less are of one size */

/* ---- Inputs ---- */

/* The largest input that one line made in a step: the step may be made of several batches. */
struct input {
    uint64_t bytes;
    const struct vt_inspection_holder *seen; /* an inspection saw this tensor; NULL = none did */
};

static const struct vt_allocation *largest_input(const struct vt_cause_search *search)
{
    const struct vt_allocation *largest = NULL;
    for (size_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[i];
        const struct vt_label *label = &search->attribution->labels[i];
        if (block->alloc_event > search->refusal->event_index)
            break;
        if (label->category == VT_CATEGORY_INPUT && label->step == search->refusal->step &&
            block->device_index == search->refusal->device_index &&
            (!largest || block->bytes > largest->bytes))
            largest = block;
    }
    return largest;
}

/* The step before those that are listed: a trace may claim more than there are blocks, and each that counts
 * has one. */
static uint32_t step_before(const struct vt_cause_search *search)
{
    const uint32_t step = search->refusal->step;
    return step > search->replay->allocation_count ? step - (uint32_t)search->replay->allocation_count - 1
                                                   : 0;
}

/* By step, from step_before() up to that of the refusal, the largest input of the line that made `example`.
 * What it made before the first step began is the first step's. */
static struct input *list_inputs(const struct vt_cause_search *search, const struct vt_allocation *example)
{
    const uint64_t line = vt_trace_own_line_key(search->trace, example->stack_id);
    const uint32_t before = step_before(search);
    struct input *inputs = vt_allocate_zeros((size_t)search->refusal->step - before + 1, sizeof *inputs);
    for (uint32_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[i];
        const struct vt_label *label = &search->attribution->labels[i];
        const uint32_t step = label->step ? label->step : 1;
        if (block->alloc_event > search->refusal->event_index)
            break;
        if (label->category != VT_CATEGORY_INPUT || block->device_index != example->device_index ||
            step > search->refusal->step || step <= before ||
            vt_trace_own_line_key(search->trace, block->stack_id) != line)
            continue;
        const struct vt_inspection_holder *seen = vt_holder_of(search->attribution, i);
        const bool whole = seen && seen->storage_bytes == seen->bytes && seen->bytes <= block->bytes;
        const uint64_t bytes = whole ? seen->bytes : block->bytes; /* a large block may be larger than it */
        if (bytes > inputs[step - before].bytes)
            inputs[step - before] = (struct input){bytes, whole ? seen : NULL};
    }
    return inputs;
}

/* "96.00 KiB", with its shape where an inspection saw that: "96.00 KiB (24x512)". */
static const char *size_of(const struct input *input, char text[128])
{
    char size[24];
    const bool shaped = input->seen && input->seen->shape[0];
    snprintf(text, 128, "%s%s%.80s%s", vt_format_bytes(input->bytes, size), shaped ? " (" : "",
             shaped ? input->seen->shape : "", shaped ? ")" : "");
    return text;
}

/* The most that a step's activations had at one time. */
static uint64_t most_activations(const struct vt_cause_search *search, uint32_t step)
{
    struct vt_peak peak = {0};
    for (size_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[i];
        const struct vt_label *label = &search->attribution->labels[i];
        if (label->category == VT_CATEGORY_ACTIVATION && label->step == step &&
            block->device_index == search->refusal->device_index)
            vt_peak_add(&peak, block->alloc_event, block->free_event, block->bytes);
    }
    return vt_peak_find(&peak, search->refusal->event_index).bytes;
}

static void put_activations(const struct vt_cause_search *search, char *text, size_t bytes)
{
    const uint32_t step = search->refusal->step;
    const uint64_t now = most_activations(search, step), before = most_activations(search, step - 1);
    char size[24], was[24];
    if (before && now > before)
        snprintf(text, bytes,
                 "; activations %s so far, %s in step %" PRIu32 "; all of the step, with this request",
                 vt_format_bytes(now, size), vt_format_bytes(before, was), step - 1);
    else
        snprintf(text, bytes, "; " STEP_PARTS);
}

/* ": inputs 96.00 KiB, were 16.00 KiB in steps 1–3; …" where the line that made the step's inputs made
 * smaller ones in all earlier steps; else "". */
static void put_input_growth(const struct vt_cause_search *search, char *text, size_t bytes)
{
    const uint32_t step = search->refusal->step;
    const struct vt_allocation *example = step > 1 ? largest_input(search) : NULL;
    text[0] = '\0';
    if (!example)
        return;
    struct input *inputs = list_inputs(search, example);
    const uint32_t before = step_before(search), last = step - before;
    uint32_t first = 0, most = 1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 1; i < last; i++) {
        first = inputs[i].bytes && !first ? i : first;
        most = inputs[i].bytes > inputs[most].bytes ||
                       (!inputs[most].seen && inputs[i].bytes == inputs[most].bytes)
                   ? i
                   : most;
        least = first && inputs[i].bytes < least ? inputs[i].bytes : least;
    }
    /* each earlier step since the first has them from the same line: then they are comparable */
    if (first && least && inputs[last].bytes >= inputs[most].bytes + inputs[most].bytes / LARGER_BY) {
        char now[128], was[128], steps[48];
        snprintf(steps, sizeof steps, first + 1 < last ? "steps %" PRIu32 "–%" PRIu32 : "step %" PRIu32,
                 before + first, step - 1);
        int used = snprintf(text, bytes, ": inputs %s, were %s%s in %s", size_of(&inputs[last], now),
                            least < inputs[most].bytes ? "at most " : "", size_of(&inputs[most], was), steps);
        if (used > 0 && (size_t)used < bytes)
            put_activations(search, text + used, bytes - (size_t)used);
    }
    free(inputs);
}

/* ---- The size of the step ---- */

/* Whether the program may train: a backward pass ran, or forward made nodes for one. */
static bool may_train(const struct vt_cause_search *search)
{
    bool trains = false;
    for (size_t i = 0; i < search->attribution->span_count && !trains; i++)
        trains = search->attribution->spans[i].phase == VT_PHASE_BACKWARD ||
                 search->attribution->spans[i].phase == VT_PHASE_OPTIMIZER;
    for (size_t i = 0; i < search->trace->event_count && !trains; i++)
        trains = search->trace->events[i].sequence != 0;
    return trains;
}

/* The largest that the program keeps for itself; NULL = none. */
static const struct vt_allocation *largest_other(const struct vt_cause_search *search)
{
    const struct vt_allocation *largest = NULL;
    for (size_t i = 0; i < search->there.count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[search->there.items[i]];
        if (search->attribution->labels[search->there.items[i]].category == VT_CATEGORY_OTHER &&
            (!largest || block->bytes > largest->bytes))
            largest = block;
    }
    return largest;
}

/* Nothing is wrong but the size: what the largest categories are. */
void vt_cause_size(struct vt_cause_search *search)
{
    const uint64_t *categories = search->refusal->categories;
    uint64_t passing = vt_cause_passing_bytes(search) + search->refusal->asked_bytes,
             model = vt_cause_resident_bytes(search) - categories[VT_CATEGORY_CONTEXT] -
                     search->refusal->other_bytes;
    if (search->shortage->cause_count)
        return;
    const bool trains = may_train(search);
    const uint64_t other = categories[VT_CATEGORY_OTHER];
    char growth[192], step[48] = "what is in use is too much";
    put_input_growth(search, growth, sizeof growth);
    const struct vt_allocation *kept =
        model <= passing && !growth[0] && other > passing / 2 ? largest_other(search) : NULL;
    if (search->refusal->step)
        snprintf(step, sizeof step, "step %" PRIu32 " is too big", search->refusal->step);
    struct vt_cause *cause =
        model > passing ? vt_cause_add(search, VT_CAUSE_SIZE, model, 0, "the model: weights%s",
                                       trains ? ", gradients and optimizer state" : "")
        : growth[0]
            ? vt_cause_add(search, VT_CAUSE_SIZE, passing, search->refusal->asker_stack, "%s%s", step, growth)
        : kept ? vt_cause_add(search, VT_CAUSE_SIZE, other, kept->bytes > other / 10 * 9 ? kept->stack_id : 0,
                              "tensors that the program keeps for itself")
               : vt_cause_add(search, VT_CAUSE_SIZE, passing, search->refusal->asker_stack, "%s: " STEP_PARTS,
                              step);
    if (cause && growth[0])
        cause->certain = true;
    if (cause && kept)
        cause->remedy = "Make them smaller, or free them before this request.";
    else if (cause && !trains)
        cause->remedy =
            "Use a smaller batch or shorter inputs; shrink weights with lower precision or sharding.";
}

/* ---- Results that are kept ---- */

/* The last event that computed gradients or made something for them; VT_NEVER = none did. */
static uint32_t last_with_gradients(const struct vt_cause_search *search)
{
    for (uint32_t i = search->refusal->event_index; i-- > 0;) {
        const uint64_t sequence = search->trace->events[i].sequence;
        if (sequence > VT_SEQUENCE_NO_NUMBER && (sequence % 2 || vt_made_node(search->attribution, i)))
            return i;
    }
    return VT_NEVER;
}

struct kept {
    uint64_t bytes;
    uint32_t alive, freed, stack_id;
};

/* What each line made on the device after `begin`: what is still there, and how much is not. */
static struct kept *list_kept(const struct vt_cause_search *search, uint32_t begin, size_t *count)
{
    struct vt_index lines = {0};
    struct kept *kept = NULL;
    size_t capacity = 0;
    *count = 0;
    for (size_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[i];
        const uint8_t category = search->attribution->labels[i].category;
        if (block->alloc_event > search->refusal->event_index)
            break;
        if (block->alloc_event <= begin || block->kind != VT_ALLOCATION_BLOCK ||
            block->device_index != search->refusal->device_index ||
            block->stack_id >= search->trace->stack_count ||
            !(vt_cause_is_passing(category) || category == VT_CATEGORY_UNKNOWN))
            continue;
        uint32_t at = vt_index_get(&lines, block->stack_id);
        if (at == VT_INDEX_NONE) {
            at = (uint32_t)*count;
            vt_index_put(&lines, block->stack_id, at);
            VT_APPEND(kept, *count, capacity, (struct kept){.stack_id = block->stack_id});
        }
        const bool alive = vt_alive_at(block, search->refusal->event_index);
        kept[at].alive += alive;
        kept[at].freed += !alive;
        kept[at].bytes += alive ? block->bytes : 0;
    }
    vt_index_free(&lines);
    return kept;
}

/* After training, without gradients, one call's results are all still there: an evaluation that keeps them.
 * The latest may be freed: the next pass may replace it. */
void vt_cause_kept_results(struct vt_cause_search *search)
{
    const uint32_t begin = last_with_gradients(search);
    const struct kept *most = NULL;
    size_t count;
    if (begin == VT_NEVER || search->shortage->cause_count)
        return;
    struct kept *kept = list_kept(search, begin, &count);
    for (size_t i = 0; i < count; i++)
        if (kept[i].alive >= LEAST_KEPT && kept[i].freed <= 1 && (!most || kept[i].bytes > most->bytes))
            most = &kept[i];
    if (most && most->bytes >= search->shortage->missing_bytes)
        vt_cause_add(search, VT_CAUSE_KEPT_RESULTS, most->bytes, most->stack_id,
                     "results of an evaluation, all still alive: %" PRIu32
                     " tensors from one line, created without gradients since the last backward pass",
                     most->alive);
    free(kept);
}
