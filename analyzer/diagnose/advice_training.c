/* Advice on the training loop: evaluation, the optimizer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/advice_private.h"
#include "base/index.h"

/* ---- Evaluation with gradients on ---- */

/* Without a graph, what forward makes lives until what comes two after it is made: its reader's output, and
 * then the reader's own reader has begun. */
#define READERS 2

/* What is known of a stack. */
enum {
    TRAINED = 1,
    DROPPED = 2
}; /* a backward pass took what it made; it went without one, and the run went on */

struct graph_block {
    uint32_t run, step, allocation;
};

struct evaluation {
    struct vt_adviser *adviser;
    uint32_t *runs;     /* by event: runs of frees with nothing made in between, which is how a graph goes */
    uint8_t *stacks;    /* by stack id */
    uint32_t last_made; /* the last event that made a block */
    struct graph_block *blocks;
    size_t count;
};

/* Numbers the runs of frees. What goes after memory ran out is in run 0: nobody can tell what it was for. */
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

static bool is_forward(const struct vt_adviser *adviser, const struct vt_allocation *block)
{
    const struct vt_label *label = vt_label_of(adviser->attribution, block);

    return vt_whatif_counts(&adviser->whatif, block) && label->module &&
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

    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return a->allocation < b->allocation ? -1 : a->allocation > b->allocation;
}

/* One graph: of it, all but what is read next goes sooner. What is left when the run ends may have been on
 * its way to a backward pass, unless the same went without one before. */
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
            vt_whatif_less(&adviser->whatif, allocations[blocks[i + READERS].allocation].alloc_event,
                           block->free_event, block->bytes);
    }
    *stack_id = *stack_id ? *stack_id : allocations[blocks[0].allocation].stack_id;
}

static uint64_t weigh_graphs(struct evaluation *evaluation, uint32_t *stack_id)
{
    const struct graph_block *blocks = evaluation->blocks;

    number_frees(evaluation);
    list_graphs(evaluation);
    qsort(evaluation->blocks, evaluation->count, sizeof *blocks, compare_graph);
    for (size_t i = 0, end; i < evaluation->count; i = end) {
        for (end = i + 1; end < evaluation->count && blocks[end].run == blocks[i].run &&
                          blocks[end].step == blocks[i].step;
             end++)
            ;
        drop_graph(evaluation, blocks + i, end - i, blocks[i].run != VT_NEVER, stack_id);
    }
    return vt_whatif_saves(&evaluation->adviser->whatif);
}

int vt_advise_evaluation(struct vt_adviser *adviser)
{
    const struct vt_trace *trace = adviser->replay->trace;
    struct evaluation evaluation = {.adviser = adviser};
    struct vt_advice *advice = NULL;
    uint32_t stack_id = 0;
    int error = -ENOMEM;

    evaluation.runs = calloc(trace->event_count + 1, sizeof *evaluation.runs);
    evaluation.stacks = calloc(trace->stack_count + 1, 1);
    evaluation.blocks = calloc(adviser->replay->allocation_count + 1, sizeof *evaluation.blocks);
    if (evaluation.runs && evaluation.stacks && evaluation.blocks) {
        advice = vt_advise(adviser, "no_grad", weigh_graphs(&evaluation, &stack_id));
        error = 0;
    }
    free(evaluation.runs);
    free(evaluation.stacks);
    free(evaluation.blocks);
    if (!advice)
        return error;
    snprintf(advice->what, sizeof advice->what, "with torch.no_grad(): around this forward");
    snprintf(advice->why, sizeof advice->why, "it keeps what a backward would need, and no backward follows");
    advice->stack_id = stack_id;
    return 0;
}

/* ---- The optimizer ---- */

static const struct {
    const char *name;
    unsigned bytes;
} optimizers[] = {
#define VT_OPTIMIZER(name, bytes) {name, bytes},
#include "trace/frameworks.def"
};

static bool begins(const char *text, const char *word)
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

/* The class of the trace's only optimizer that inspections recorded; NULL = unknown, or several. */
static const char *optimizer_class(const struct vt_trace *trace)
{
    return trace->optimizer_count == 1 && trace->optimizers[0].class_name[0] ? trace->optimizers[0].class_name
                                                                             : NULL;
}

/* The most that was ever alive of a category. 0 without memory. */
static uint64_t most_alive(const struct vt_adviser *adviser, enum vt_category category)
{
    const struct vt_replay *replay = adviser->replay;
    uint64_t *changes = calloc(replay->trace->event_count + 1, sizeof *changes), sum = 0, most = 0;

    for (size_t i = 0; changes && i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];

        if (adviser->attribution->labels[i].category != category ||
            !vt_whatif_counts(&adviser->whatif, block))
            continue;
        changes[block->alloc_event] += block->bytes;
        if (block->free_event != VT_NEVER)
            changes[block->free_event] -= block->bytes;
    }
    for (size_t i = 0; changes && i < replay->trace->event_count; i++) {
        sum += changes[i];
        most = (int64_t)sum > (int64_t)most ? sum : most;
    }
    free(changes);
    return most;
}

/* State is for parameters that are trained: those that have gradients, which are as large, but whose blocks
 * may have more to spare. */
static uint64_t trained_bytes(const struct vt_adviser *adviser)
{
    uint64_t gradients = most_alive(adviser, VT_CATEGORY_GRADIENT);
    uint64_t parameters = most_alive(adviser, VT_CATEGORY_PARAMETER);
    return parameters && parameters < gradients ? parameters : gradients;
}

static int advise_state(struct vt_adviser *adviser)
{
    const struct vt_replay *replay = adviser->replay;
    uint64_t state = 0, trained = trained_bytes(adviser);
    uint32_t stack_id = 0;
    const char *name = NULL;
    struct vt_advice *advice;
    char bytes[24];

    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];

        if (!vt_whatif_counts(&adviser->whatif, block))
            continue;
        if (adviser->attribution->labels[i].category != VT_CATEGORY_OPTIMIZER_STATE)
            continue;
        state += vt_alive_at(block, adviser->whatif.peak_event) ? block->bytes : 0;
        stack_id = stack_id ? stack_id : block->stack_id;
        vt_whatif_less(&adviser->whatif, block->alloc_event, block->free_event, block->bytes / 2);
    }
    name = optimizer_class(replay->trace);
    name = name ? name : optimizer_file(adviser, stack_id);
    for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
        uint64_t saved;

        if (!name || !begins(name, optimizers[i].name))
            continue;
        saved = vt_whatif_saves(&adviser->whatif);
        advice = trained ? vt_advise(adviser, "optimizer", saved) : NULL;
        if (!advice)
            return 0;
        snprintf(advice->what, sizeof advice->what,
                 "an optimizer with one state for each parameter instead of two (SGD with momentum, Lion)");
        snprintf(advice->why, sizeof advice->why,
                 "%.*s keeps %s at the peak, %.1f bytes for four bytes of parameters (by definition %u); "
                 "this one half of "
                 "it, one in 8 bits a quarter. It changes the training",
                 (int)strcspn(name, "."), name, vt_format_bytes(state, bytes),
                 4.0 * (double)state / (double)trained, optimizers[i].bytes);
        advice->stack_id = stack_id;
        return 0;
    }
    vt_whatif_saves(&adviser->whatif); /* forgets */
    return 0;
}

/* A step that works on all parameters at once needs its temporaries for all of them at once. */
static int advise_foreach(struct vt_adviser *adviser)
{
    const struct vt_attribution *attribution = adviser->attribution;
    uint64_t most = 0;
    uint32_t stack_id = 0, next = 0;
    struct vt_advice *advice;
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
                !(vt_site_of(attribution, block->stack_id)->traits & VT_TRAIT(FOREACH)))
                continue;
            vt_whatif_less(&adviser->whatif, block->alloc_event, block->free_event, block->bytes);
            largest = block->bytes > largest ? block->bytes : largest;
            all += block->bytes;
            stack_id = stack_id ? stack_id : block->stack_id;
        }
        /* one parameter's at a time: its square root and the quotient made of it */
        vt_whatif_less(&adviser->whatif, span->first_event, span->last_event + 1, 0 - largest * 2);
        most = all > most ? all : most;
    }
    advice = vt_advise(adviser, "foreach", vt_whatif_saves(&adviser->whatif));
    if (!advice)
        return 0;
    snprintf(advice->what, sizeof advice->what, "the optimizer with foreach=False, or fused=True");
    snprintf(advice->why, sizeof advice->why,
             "its step makes %s of temporaries for all parameters together, where one parameter's would do "
             "at a time",
             vt_format_bytes(most, bytes));
    advice->stack_id = stack_id;
    return 0;
}

int vt_advise_optimizer(struct vt_adviser *adviser)
{
    int error = advise_state(adviser);

    return error ? error : advise_foreach(adviser);
}
