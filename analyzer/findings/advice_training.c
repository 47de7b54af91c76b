/* Advice on the training loop: evaluation, copies of the weights, the optimizer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/sort.h"
#include "findings/adviser.h"

/* ---- Evaluation with gradients on ---- */

/* Without a graph, what forward makes lives until the second block after it is made: its reader's output, and
 * then the reader's own reader has begun. */
#define READERS 2

/* What is known of a stack. */
enum {
    TRAINED = 1, /* a backward pass used what it made */
    DROPPED = 2  /* what it made was freed without one, and the run continued */
};

struct graph_block {
    uint32_t run, step, allocation;
};

struct evaluation {
    struct vt_adviser *adviser;
    uint32_t *runs; /* by event: runs of frees with no allocation in between, which is how a graph is freed */
    uint8_t *stacks;    /* by stack id */
    uint32_t last_made; /* the last event that made a block */
    struct graph_block *blocks;
    size_t count;
};

/* Numbers the runs of frees. Frees after memory ran out are in run 0: their cause is not known. */
static void number_frees(struct evaluation *evaluation)
{
    const struct vt_trace *trace = evaluation->adviser->replay->trace;
    bool freeing = false, refused = false;
    uint32_t run = 0;

    for (uint32_t i = 0; i < trace->event_count; i++) {
        const struct vt_event *event = &trace->events[i];

        if (event->kind == VT_EVENT_ALLOC && event->layer == VT_LAYER_FRAMEWORK) {
            freeing = refused = false;
            evaluation->last_made = i;
        } else if (event->kind == VT_EVENT_OOM) {
            refused = true;
        } else if (event->kind == VT_EVENT_FREE && !freeing) {
            freeing = true;
            run++;
        }
        evaluation->runs[i] = refused ? 0 : run;
    }
}

/* Not what autocast keeps until its block ends, with or without a graph. */
static bool is_forward(const struct vt_adviser *adviser, const struct vt_allocation *block)
{
    const struct vt_label *label = vt_label_of(adviser->attribution, block);

    return !(vt_stack_traits_of(adviser->attribution, block->stack_id)->traits & VT_TRAIT(AUTOCAST)) &&
           vt_whatif_counts(&adviser->whatif, block) && label->module &&
           (label->phase == VT_PHASE_FORWARD || label->phase == VT_PHASE_EVAL) &&
           block->stack_id < adviser->replay->trace->stack_count;
}

static void list_graphs(struct evaluation *evaluation)
{
    const struct vt_adviser *adviser = evaluation->adviser;
    const struct vt_replay *replay = adviser->replay;

    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        const struct vt_label *label = &adviser->attribution->labels[i];
        bool freed = block->free_event < replay->trace->event_count;

        if (!is_forward(adviser, block))
            continue;
        if (freed && (adviser->passes[block->free_event] > adviser->passes[block->alloc_event]))
            evaluation->stacks[block->stack_id] |= TRAINED;
        else if ((label->category == VT_CATEGORY_ACTIVATION || label->category == VT_CATEGORY_TEMPORARY) &&
                 (!freed || evaluation->runs[block->free_event]))
            evaluation->blocks[evaluation->count++] =
                (struct graph_block){freed ? evaluation->runs[block->free_event] : VT_NEVER, label->step, i};
    }
}

static int compare_graph(const void *left, const void *right)
{
    const struct graph_block *a = left, *b = right;

    return 4 * vt_order(a->run, b->run) + 2 * vt_order(a->step, b->step) +
           vt_order(a->allocation, b->allocation);
}

/* One graph: without gradients all of it would be freed sooner, but for what is read next. A graph that is
 * left when the run ends may have been meant for a backward pass, unless the same stacks went without one
 * before. */
static void drop_graph(struct evaluation *evaluation, const struct graph_block *blocks, size_t count,
                       bool settled, uint32_t *stack_id)
{
    struct vt_adviser *adviser = evaluation->adviser;
    const struct vt_allocation *allocations = adviser->replay->allocations;
    bool nodes = false, trained = false, dropped = true;

    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = &allocations[blocks[i].allocation];

        nodes |= vt_made_node(adviser->attribution, block->alloc_event);
        trained |= evaluation->stacks[block->stack_id] & TRAINED;
        dropped &= (evaluation->stacks[block->stack_id] & DROPPED) != 0;
        settled &= block->free_event < evaluation->last_made;
    }
    if (!nodes || trained || count <= READERS || !(settled || dropped))
        return;
    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = &allocations[blocks[i].allocation];

        evaluation->stacks[block->stack_id] |= DROPPED;
        if (i + READERS < count)
            vt_whatif_less(&adviser->whatif, block, allocations[blocks[i + READERS].allocation].alloc_event,
                           block->free_event, block->bytes);
        else if (i + 1 < count) /* the result's reader is not known, its own input is gone with the call */
            vt_whatif_less(&adviser->whatif, block, allocations[blocks[count - 1].allocation].alloc_event + 1,
                           block->free_event, block->bytes);
    }
    *stack_id = *stack_id ? *stack_id : allocations[blocks[0].allocation].stack_id;
}

static uint64_t weigh_graphs(struct evaluation *evaluation, uint32_t *stack_id)
{
    const struct graph_block *blocks = evaluation->blocks;

    number_frees(evaluation);
    list_graphs(evaluation);
    vt_sort(evaluation->blocks, evaluation->count, sizeof *blocks, compare_graph);
    for (size_t i = 0, end; i < evaluation->count; i = end) {
        for (end = i + 1; end < evaluation->count && blocks[end].run == blocks[i].run &&
                          blocks[end].step == blocks[i].step;
             end++)
            ;
        drop_graph(evaluation, blocks + i, end - i, blocks[i].run != VT_NEVER, stack_id);
    }
    return vt_whatif_saves(&evaluation->adviser->whatif);
}

void vt_advise_no_grad(struct vt_adviser *adviser)
{
    const struct vt_trace *trace = adviser->replay->trace;
    struct evaluation evaluation = {
        .adviser = adviser,
        .runs = vt_allocate_zeros(trace->event_count + 1, sizeof *evaluation.runs),
        .stacks = vt_allocate_zeros(trace->stack_count + 1, 1),
        .blocks = vt_allocate_zeros(adviser->replay->allocation_count + 1, sizeof *evaluation.blocks)};
    uint32_t stack_id = 0;
    uint64_t bytes = weigh_graphs(&evaluation, &stack_id);
    free(evaluation.runs);
    free(evaluation.stacks);
    free(evaluation.blocks);
    vt_advise(adviser, VT_ADVICE_NO_GRAD, bytes, (struct vt_advice_subject){.stack_id = stack_id},
              &vt_remedy_no_grad,
              "This forward pass saves activations for a backward pass that never happens");
}

/* ---- Copies of the weights that stay on the GPU ---- */

/* Who keeps a block, as the latest census saw it; NULL = unknown. */
static const struct vt_inspection_holder *holder_of(const struct vt_attribution *attribution,
                                                    uint32_t allocation)
{
    for (size_t i = 0; i < attribution->held_count; i++)
        if (attribution->held[i].allocation == allocation)
            return attribution->held[i].holder;
    return NULL;
}

static bool is_kept_copy(const struct vt_label *label)
{
    return label->category == VT_CATEGORY_CHECKPOINT_COPY ||
           (label->category == VT_CATEGORY_OTHER && label->is_copy);
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
        if (!vt_whatif_counts(&adviser->whatif, block) || !is_kept_copy(&attribution->labels[i]))
            continue;
        vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event, block->bytes);
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
    vt_advise(
        adviser, VT_ADVICE_COPIES, saved, (struct vt_advice_subject){.stack_id = stack_id},
        loaded ? &vt_remedy_load_on_host : &vt_remedy_copy_on_host,
        "A copy of all parameters%s%.200s takes %s of GPU memory at the peak. The GPU needs it only if every "
        "step reads it (EMA, anchor)",
        holder ? ", kept by " : "", holder ? holder->holder : "", vt_format_bytes(at_peak, bytes));
}

/* ---- The optimizer ---- */

static const struct {
    const char *name;
    unsigned bytes;
} optimizers[] = {
#define VT_OPTIMIZER(name, bytes) {name, bytes},
#include "trace/frameworks.def"
};

static bool begins_with(const char *text, const char *word)
{
    for (; *word; text++, word++)
        if ((*text | 0x20) != *word)
            return false;
    return true;
}

/* The optimizer's file in a stack, without folders: "adamw.py"; NULL = none. */
static const char *optimizer_file(const struct vt_adviser *adviser, uint32_t stack_id)
{
    const struct vt_trace *trace = adviser->replay->trace;
    const struct vt_trace_stack *stack = stack_id < trace->stack_count ? &trace->stacks[stack_id] : NULL;

    for (uint32_t i = 0; stack && i < stack->python_count; i++) {
        uint32_t code_id = stack->python[i].code_id;
        const char *slash;

        if (!vt_code_is(adviser->attribution, code_id, VT_CODE_OPTIMIZER_FILE))
            continue;
        slash = strrchr(trace->codes[code_id].file, '/');
        return slash ? slash + 1 : trace->codes[code_id].file;
    }
    return NULL;
}

/* The number of a known optimizer, by its class or file. */
static size_t known_optimizer(const char *name)
{
    size_t i = 0;
    while (i < sizeof optimizers / sizeof *optimizers && !begins_with(name, optimizers[i].name))
        i++;
    return i;
}

/* The class of the optimizers that inspections recorded; those that only wrap one have no known name. NULL =
 * unknown, or several. */
static const char *optimizer_class(const struct vt_trace *trace)
{
    const char *found = NULL;
    for (size_t i = 0; i < trace->optimizer_count; i++) {
        const char *name = trace->optimizers[i].class_name;
        size_t number = known_optimizer(name);
        if (number == sizeof optimizers / sizeof *optimizers && trace->optimizer_count > 1)
            continue;
        if (found && known_optimizer(found) != number)
            return NULL;
        found = name[0] ? name : found;
    }
    return found;
}

/* The most that was ever alive of a category. */
static uint64_t most_alive(const struct vt_adviser *adviser, enum vt_category category)
{
    const struct vt_replay *replay = adviser->replay;
    uint64_t *changes = vt_allocate_zeros(replay->trace->event_count + 1, sizeof *changes), sum = 0, most = 0;

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];

        if (adviser->attribution->labels[i].category != category ||
            !vt_whatif_counts(&adviser->whatif, block))
            continue;
        changes[block->alloc_event] += block->bytes;
        if (block->free_event != VT_NEVER)
            changes[block->free_event] -= block->bytes;
    }
    for (size_t i = 0; i < replay->trace->event_count; i++) {
        sum += changes[i];
        most = (int64_t)sum > (int64_t)most ? sum : most;
    }
    free(changes);
    return most;
}

/* State belongs to trained parameters, which have gradients. These are as large, but their blocks may be
 * rounded up more. */
static uint64_t trained_bytes(const struct vt_adviser *adviser)
{
    uint64_t gradients = most_alive(adviser, VT_CATEGORY_GRADIENT);
    uint64_t parameters = most_alive(adviser, VT_CATEGORY_PARAMETER);
    return parameters && parameters < gradients ? parameters : gradients;
}

/* The report says which labels are in doubt. */
static bool states_are_in_doubt(const struct vt_attribution *attribution)
{
    for (size_t i = 0; i < attribution->identity_count; i++)
        if (attribution->identities[i].kind == VT_IDENTITY_STATES &&
            attribution->identities[i].result == VT_IDENTITY_BROKEN)
            return true;
    return false;
}

/* bitsandbytes: a byte for each element and four for each 256; tensors of fewer than 4096 elements stay. An
 * unknown type is taken to be float32. */
#define QUANTIZED_ELEMENTS 4096

static uint64_t saved_by_8_bits(uint64_t bytes, const char *dtype)
{
    const uint64_t element = !dtype[0] || strstr(dtype, "float32") ? 4 : strstr(dtype, "float16") ? 2 : 1;

    return element == 1 || bytes < QUANTIZED_ELEMENTS * element
               ? 0
               : bytes - bytes / element - bytes / element / 64;
}

void vt_advise_optimizer(struct vt_adviser *adviser)
{
    const struct vt_replay *replay = adviser->replay;
    uint64_t state = 0, less = 0, trained = trained_bytes(adviser);
    uint32_t stack_id = 0;
    bool type_is_known = false;
    char bytes[24];
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        const struct vt_label *label = &adviser->attribution->labels[i];
        if (!vt_whatif_counts(&adviser->whatif, block))
            continue;
        if (label->category == VT_CATEGORY_OPTIMIZER_STATE) {
            state += vt_alive_at(block, adviser->whatif.peak_event) ? block->bytes : 0;
            stack_id = stack_id ? stack_id : block->stack_id;
            size_t count = 0;
            const struct vt_owner *owners = vt_owners_of(adviser->attribution, i, &count);
            const char *dtype = count ? owners->dtype : "";
            const uint64_t saved_bytes = saved_by_8_bits(block->bytes, dtype);

            type_is_known |= dtype[0] != '\0';
            less += saved_bytes;
            vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event, saved_bytes);
        } else if (label->category == VT_CATEGORY_TEMPORARY && label->phase == VT_PHASE_OPTIMIZER) {
            vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event, block->bytes);
        }
    }
    uint64_t saved = vt_whatif_saves(&adviser->whatif);
    const char *name = optimizer_class(replay->trace);
    name = name ? name : optimizer_file(adviser, stack_id);
    size_t known = name && trained ? known_optimizer(name) : sizeof optimizers / sizeof *optimizers;
    if (known == sizeof optimizers / sizeof *optimizers)
        return;
    /* else some of either are missing here: other processes have them, or they have another category */
    double ratio = 4.0 * (double)state / (double)trained, defined = optimizers[known].bytes;
    if (!less || (!type_is_known && ratio < 0.4 * defined)) /* they have 8 bits */
        return;
    char text[80] = "";
    if (states_are_in_doubt(adviser->attribution))
        snprintf(text, sizeof text, ", if its states are what they seem to be");
    else if (ratio > 0.9 * defined && ratio < 1.1 * defined)
        snprintf(text, sizeof text, ", %.1f bytes for each 4 bytes of parameters (%u expected)", ratio,
                 optimizers[known].bytes);
    vt_advise(
        adviser, VT_ADVICE_OPTIMIZER, saved, (struct vt_advice_subject){.stack_id = stack_id},
        &vt_remedy_fewer_states,
        "%.*s holds 2 states per parameter: %s at the peak%s. 8-bit ones (bitsandbytes) need a quarter, "
        "one-state optimizers half. Both change training results",
        (int)strcspn(name, "."), name, vt_format_bytes(state, bytes), text);
}

/* A step that works on all parameters at once needs its temporaries for all of them at once. */
void vt_advise_foreach(struct vt_adviser *adviser)
{
    const struct vt_attribution *attribution = adviser->attribution;
    uint64_t most = 0;
    uint32_t stack_id = 0, next = 0;
    char bytes[24];

    for (size_t s = 0; s < attribution->span_count; s++) {
        const struct vt_span *span = &attribution->spans[s];
        uint64_t largest = 0, all = 0;

        for (; next < adviser->replay->allocation_count &&
               adviser->replay->allocations[next].alloc_event <= span->last_event;
             next++) {
            const struct vt_allocation *block = &adviser->replay->allocations[next];

            if (span->phase != VT_PHASE_OPTIMIZER ||
                attribution->labels[next].category != VT_CATEGORY_TEMPORARY ||
                !vt_whatif_counts(&adviser->whatif, block) ||
                !(vt_stack_traits_of(attribution, block->stack_id)->traits & VT_TRAIT(FOREACH)))
                continue;
            vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event, block->bytes);
            largest = block->bytes > largest ? block->bytes : largest;
            all += block->bytes;
            stack_id = stack_id ? stack_id : block->stack_id;
        }
        /* for one parameter at a time: its square root and the quotient */
        vt_whatif_less(&adviser->whatif, NULL, span->first_event, span->last_event + 1, 0 - largest * 2);
        most = all > most ? all : most;
    }
    vt_advise(adviser, VT_ADVICE_FOREACH, vt_whatif_saves(&adviser->whatif),
              (struct vt_advice_subject){.stack_id = stack_id}, &vt_remedy_not_foreach,
              "The step allocates temporaries for all parameters at once (%s)", vt_format_bytes(most, bytes));
}
