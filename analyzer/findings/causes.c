/* Why memory ran out: what filled the GPU unnecessarily. Each finder looks for one thing and states its
 * bytes; the cause shown first is the largest one without which the request would have been granted. */
#include "findings/causes.h"

#include "attribute/stack_traits.h"
#include "base/allocate.h"
#include "base/format.h"
#include "base/index.h"
#include "base/sort.h"
#include "findings/causes_cache.h"
#include "findings/causes_models.h"
#include "findings/causes_outside.h"
#include "findings/causes_steps.h"
#include "findings/inference.h"
#include "trace/frameworks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_PART 20u /* of the GPU: anything smaller is not a cause */
#define LEAST_CACHE 4u /* of the weights and their like: of keys and values */

struct vt_cause *vt_cause_add(struct vt_cause_search *search, enum vt_cause_kind kind, uint64_t bytes,
                              uint32_t stack_id, const char *what, ...)
{
    static const struct {
        const char *name, *examined, *remedy;
        bool certain;
    } kinds[] = {
#define VT_CAUSE(id, name, certain, examined, remedy, find) {name, examined, remedy, certain},
#include "findings/findings.def"
    };
    struct vt_shortage *shortage = search->shortage;
    va_list arguments;
    if (bytes * LEAST_PART < search->gpu_bytes || shortage->cause_count == VT_CAUSES)
        return NULL;
    struct vt_cause *cause = &shortage->causes[shortage->cause_count++];
    *cause = (struct vt_cause){.kind = kinds[kind].name,
                               .certain = kinds[kind].certain,
                               .examined = kinds[kind].examined,
                               .remedy = kinds[kind].remedy,
                               .bytes = bytes,
                               .share = (double)bytes / (double)search->gpu_bytes,
                               .place = stack_id ? vt_place_of(search->report->places, stack_id) : NULL,
                               .suffices = bytes >= shortage->missing_bytes};
    search->found |= UINT32_C(1) << kind;
    search->kinds[shortage->cause_count - 1] = kind;
    va_start(arguments, what);
    vsnprintf(cause->what, sizeof cause->what, what, arguments);
    va_end(arguments);
    return cause;
}

bool vt_cause_is_passing(uint8_t category)
{
    return category == VT_CATEGORY_ACTIVATION || category == VT_CATEGORY_INPUT ||
           category == VT_CATEGORY_TEMPORARY || category == VT_CATEGORY_OTHER;
}

uint64_t vt_cause_resident_bytes(const struct vt_cause_search *search)
{
    const uint64_t *categories = search->refusal->categories;
    return search->refusal->other_bytes + categories[VT_CATEGORY_CONTEXT] +
           categories[VT_CATEGORY_PARAMETER] + categories[VT_CATEGORY_BUFFER] +
           categories[VT_CATEGORY_GRADIENT] + categories[VT_CATEGORY_OPTIMIZER_STATE];
}

static void find_request(struct vt_cause_search *search)
{
    const struct vt_oom *refusal = search->refusal;
    char total[24];
    if (!refusal->free_known || refusal->asked_bytes <= refusal->total_bytes)
        return;
    struct vt_cause *cause = vt_cause_add(
        search, VT_CAUSE_REQUEST, refusal->asked_bytes, refusal->asker_stack,
        "a single allocation larger than the GPU (%s)", vt_format_bytes(refusal->total_bytes, total));
    if (cause)
        cause->suffices = true;
}

static void find_leaks(struct vt_cause_search *search)
{
    const struct vt_leaks *leaks = &search->shortage->device->leaks;
    for (size_t i = 0; i < leaks->count; i++) {
        const struct vt_leak *leak = &leaks->items[i];
        struct vt_cause *cause;
        char each[24], of[32] = "";
        if (leak->category == VT_CATEGORY_KV_CACHE)
            snprintf(of, sizeof of, " (%s)", vt_category_label(leak->category));
        if (leak->category == VT_CATEGORY_CACHED || leak->category == VT_CATEGORY_HOST_PINNED)
            continue;
        cause = vt_cause_add(search, VT_CAUSE_LEAK, leak->bytes, 0,
                             "%s%s%s, growing by %s per step since step %" PRIu32,
                             leak->is_leak ? "a leak: " : "", leak->name, of,
                             vt_format_bytes(leak->bytes_per_step, each), leak->first_step);
        if (!cause)
            continue;
        cause->remedy = leak->remedy;
        cause->place = leak->line_count ? &leak->lines[0] : NULL;
        cause->holder = leak->holder.name;
    }
}

/* ---- A try that failed, and is held by its exception ---- */

static bool same_call(const struct vt_trace *trace, const struct vt_trace_stack *a,
                      const struct vt_trace_stack *b, uint32_t depth)
{
    const struct vt_python_frame *left = &a->python[a->python_count - 1 - depth];
    const struct vt_python_frame *right = &b->python[b->python_count - 1 - depth];
    return left->code_id == right->code_id &&
           vt_trace_python_line(trace, left) == vt_trace_python_line(trace, right);
}

/* How many of the outermost frames two stacks share, line by line. */
static uint32_t shared_calls(const struct vt_trace *trace, uint32_t left, uint32_t right)
{
    const struct vt_trace_stack *a = &trace->stacks[left], *b = &trace->stacks[right];
    uint32_t depth = 0;
    while (depth < a->python_count && depth < b->python_count && same_call(trace, a, b, depth))
        depth++;
    return depth;
}

/* The outermost frames of a stack up to the call of a function that failed: those that the second try does
 * not share, at most all but the innermost of the script's own. */
static uint32_t calls_to(const struct vt_cause_search *search, uint32_t failed, uint32_t now)
{
    const struct vt_trace_stack *stack = &search->trace->stacks[failed];
    uint32_t shared = shared_calls(search->trace, failed, now), own = 0;
    while (own < stack->python_count &&
           !vt_trace_code_is_library(search->trace, stack->python[stack->python_count - 1 - own].code_id))
        own++;
    own = own ? own - 1 : 0;
    return shared + 1 < own ? shared + 1 : own;
}

/* A library whose request fails may repeat it: the same line, and nothing was allocated in between. */
static bool is_repeated(const struct vt_cause_search *search, const struct vt_oom *failed)
{
    bool made = false;
    for (uint32_t i = failed->event_index; i < search->refusal->event_index && !made; i++)
        made = search->trace->events[i].kind == VT_EVENT_ALLOC ||
               search->trace->events[i].kind == VT_EVENT_HANDLE_CREATE;
    return !made && failed->asked_bytes == search->refusal->asked_bytes &&
           vt_trace_own_line_key(search->trace, failed->stack_id) ==
               vt_trace_own_line_key(search->trace, search->refusal->stack_id);
}

static void find_failed_try(struct vt_cause_search *search)
{
    const struct vt_report *report = search->report;
    const struct vt_oom *failed = NULL;
    uint64_t bytes = 0;
    for (size_t i = 0; i < report->shown_refusal; i++)
        if (report->refusals[i].device_index == search->refusal->device_index)
            failed = &report->refusals[i];
    if (!failed || failed->stack_id >= search->trace->stack_count || is_repeated(search, failed))
        return;
    uint32_t calls = calls_to(search, failed->stack_id, search->refusal->stack_id);
    for (size_t i = 0; i < search->there.count && calls; i++) {
        const struct vt_allocation *block = &search->replay->allocations[search->there.items[i]];
        const struct vt_label *label = &search->attribution->labels[search->there.items[i]];
        if (block->alloc_event < failed->event_index &&
            (vt_cause_is_passing(label->category) || label->category == VT_CATEGORY_UNKNOWN) &&
            label->step == failed->step && block->stack_id < search->trace->stack_count &&
            shared_calls(search->trace, block->stack_id, failed->stack_id) >= calls)
            bytes += block->bytes;
    }
    vt_cause_add(search, VT_CAUSE_FAILED_TRY, bytes, failed->stack_id,
                 "an earlier failed attempt (oom#%td), kept alive by its exception",
                 failed - report->refusals + 1);
}

/* ---- An evaluation that makes graphs ---- */

struct graphs {
    struct vt_index ran;     /* nodes that backward ran */
    struct vt_index trained; /* code within modules, of such nodes */
    uint8_t *stack_trained;  /* by stack */
    uint32_t *copies;        /* by stack: blocks that are there */
};

static void read_graphs(const struct vt_cause_search *search, struct graphs *graphs)
{
    const struct vt_trace *trace = search->trace;

    graphs->stack_trained = vt_allocate_zeros(trace->stack_count + 1, sizeof *graphs->stack_trained);
    graphs->copies = vt_allocate_zeros(trace->stack_count + 1, sizeof *graphs->copies);
    for (size_t i = 0; i < trace->event_count; i++)
        if (trace->events[i].sequence > VT_SEQUENCE_NO_NUMBER && trace->events[i].sequence % 2)
            vt_index_put(&graphs->ran, trace->events[i].sequence & ~UINT64_C(1), 1);
    for (size_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[i];
        if (block->stack_id >= trace->stack_count || !vt_made_node(search->attribution, block->alloc_event) ||
            !vt_index_has(&graphs->ran, block->sequence & ~UINT64_C(1)))
            continue;
        graphs->stack_trained[block->stack_id] = 1;
        vt_index_put(&graphs->trained, vt_module_code(trace, block->stack_id), 1);
    }
}

/* Part of a graph that is there for no backward: its code never had one, although the same modules, called
 * from elsewhere, do; or its function says evaluation. */
static bool is_evaluation(const struct vt_cause_search *search, const struct graphs *graphs, uint32_t index)
{
    const struct vt_allocation *block = &search->replay->allocations[index];
    if (block->kind != VT_ALLOCATION_BLOCK || block->stack_id >= search->trace->stack_count ||
        graphs->stack_trained[block->stack_id] || !vt_made_node(search->attribution, block->alloc_event))
        return false;
    uint64_t code = vt_module_code(search->trace, block->stack_id);
    return (vt_stack_traits_of(search->attribution, block->stack_id)->traits & VT_TRAIT(EVALUATION)) ||
           search->attribution->labels[index].phase == VT_PHASE_EVAL ||
           (code && vt_index_has(&graphs->trained, code));
}

static void find_gradients_on(struct vt_cause_search *search)
{
    struct graphs graphs = {0};
    read_graphs(search, &graphs);
    uint32_t most = 0, first = VT_NEVER, stack_id = 0;
    uint64_t bytes = 0;
    for (size_t k = 0; k < search->there.count; k++) {
        const uint32_t i = search->there.items[k];
        const struct vt_allocation *block = &search->replay->allocations[i];
        if (search->attribution->labels[i].step != search->refusal->step ||
            !is_evaluation(search, &graphs, i))
            continue; /* what each step keeps is a leak */
        first = block->alloc_event < first ? block->alloc_event : first;
        if (++graphs.copies[block->stack_id] > most) {
            most = graphs.copies[block->stack_id];
            stack_id = block->stack_id;
        }
    }
    for (size_t i = 0; i < search->there.count && most > 1; i++) {
        const struct vt_allocation *block = &search->replay->allocations[search->there.items[i]];
        if (block->alloc_event >= first &&
            vt_cause_is_passing(vt_label_of(search->attribution, block)->category))
            bytes += block->bytes;
    }
    const struct vt_place *place = vt_place_of(search->report->places, stack_id);
    for (size_t i = 0; i < search->shortage->cause_count && place; i++) /* a leak that is there already */
        if (search->shortage->causes[i].place &&
            !strcmp(search->shortage->causes[i].place->name, place->name))
            most = 0;
    if (most > 1)
        vt_cause_add(search, VT_CAUSE_GRADIENTS_ON, bytes, stack_id,
                     "evaluation with gradients enabled: %" PRIu32
                     " forward graphs that no backward pass has used",
                     most);
    vt_index_free(&graphs.ran);
    vt_index_free(&graphs.trained);
    free(graphs.stack_trained);
    free(graphs.copies);
}

/* ---- The rest ---- */

/* The bytes of some blocks, and the stack of the largest. */
struct sum {
    uint64_t bytes, largest;
    uint32_t stack_id;
};

static void add_to_sum(struct sum *sum, const struct vt_allocation *block)
{
    sum->bytes += block->bytes;
    sum->stack_id = block->bytes > sum->largest ? block->stack_id : sum->stack_id;
    sum->largest = block->bytes > sum->largest ? block->bytes : sum->largest;
}

static void find_checkpoint_copy(struct vt_cause_search *search)
{
    struct sum copies = {0};
    for (size_t i = 0; i < search->there.count; i++)
        if (search->attribution->labels[search->there.items[i]].category == VT_CATEGORY_CHECKPOINT_COPY)
            add_to_sum(&copies, &search->replay->allocations[search->there.items[i]]);
    vt_cause_add(search, VT_CAUSE_CHECKPOINT_COPY, copies.bytes, copies.stack_id,
                 "copies of weights or of a checkpoint on the GPU");
}

static void find_earlier_steps(struct vt_cause_search *search)
{
    struct sum earlier = {0};
    if (search->shortage->cause_count || search->refusal->step < 3)
        return;
    for (size_t i = 0; i < search->there.count; i++) {
        const struct vt_label *label = &search->attribution->labels[search->there.items[i]];
        if (label->step > 0 && label->step + 2 <= search->refusal->step &&
            vt_cause_is_passing(label->category))
            add_to_sum(&earlier, &search->replay->allocations[search->there.items[i]]);
    }
    struct vt_cause *cause = vt_cause_add(search, VT_CAUSE_EARLIER_STEPS, earlier.bytes, earlier.stack_id,
                                          "tensors from earlier steps are still alive");
    if (cause && search->trace->stacks[earlier.stack_id].native_count &&
        !vt_shows_kind(search->trace, earlier.stack_id, VT_OBJECT_NODES))
        cause->remedy = "Release tensors from earlier steps, or keep copies on the CPU.";
}

uint64_t vt_cause_passing_bytes(const struct vt_cause_search *search)
{
    uint64_t bytes = 0;
    for (uint8_t c = 0; c < VT_CATEGORY_COUNT; c++)
        bytes += vt_cause_is_passing(c) ? search->refusal->categories[c] : 0;
    return bytes;
}

/* What a server fills its GPU with, besides the weights. */
static void find_kv_cache(struct vt_cause_search *search)
{
    const uint64_t bytes = search->refusal->categories[VT_CATEGORY_KV_CACHE];
    struct sum pool = {0};
    if (search->shortage->cause_count || bytes <= vt_cause_passing_bytes(search) ||
        bytes * LEAST_CACHE <= vt_cause_resident_bytes(search))
        return;
    for (size_t i = 0; i < search->there.count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[search->there.items[i]];
        if (vt_is_of_pool(search->attribution, block))
            add_to_sum(&pool, block);
    }
    const bool is_pool = pool.bytes > bytes / 2;
    struct vt_cause *cause = vt_cause_add(search, VT_CAUSE_KV_CACHE, bytes, is_pool ? pool.stack_id : 0,
                                          is_pool ? "the pool of the KV cache, laid out before this call"
                                                  : "the KV cache of the current sequences");
    if (cause && is_pool)
        cause->remedy = "Make the pool smaller, or let one pass process fewer tokens.";
}

/* Nothing is known of what the memory is for, so nothing can be called wrong: says only which call made the
 * most. */
static void find_unknown_use(struct vt_cause_search *search)
{
    const struct vt_oom *refusal = search->refusal;
    const uint64_t unknown = refusal->categories[VT_CATEGORY_UNKNOWN];
    uint32_t largest = 0;
    char most[24];
    if (search->shortage->cause_count || unknown * 2 < refusal->driver_bytes)
        return;
    uint64_t *by_stack = vt_allocate_zeros(search->trace->stack_count + 1, sizeof *by_stack);
    for (size_t i = 0; i < search->there.count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[search->there.items[i]];
        const uint32_t stack_id = block->stack_id;
        if (vt_label_of(search->attribution, block)->category != VT_CATEGORY_UNKNOWN ||
            stack_id >= search->trace->stack_count)
            continue;
        by_stack[stack_id] += vt_allocation_own_bytes(block);
        largest = by_stack[stack_id] > by_stack[largest] ? stack_id : largest;
    }
    vt_cause_add(search, VT_CAUSE_UNKNOWN_USE, unknown, largest,
                 "memory of unknown use, %s of it from one call", vt_format_bytes(by_stack[largest], most));
    free(by_stack);
}

static int compare_causes(const void *left, const void *right)
{
    const struct vt_cause *a = left, *b = right;
    return 2 * vt_order(b->suffices, a->suffices) + vt_order(b->bytes, a->bytes);
}

/* Whether a package's code is among those that asked for the memory. */
static bool asks(const struct vt_trace *trace, uint32_t stack_id, const char *package)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const char *path = vt_path_in_packages(trace->codes[stack->python[i].code_id].file);
        if (path && !strncmp(path, package, strlen(package)))
            return true;
    }
    return false;
}

/* What a server's user can set. */
static void name_settings(struct vt_cause_search *search)
{
    static const struct {
        const char *package;
        enum vt_cause_kind kind;
        const char *remedy;
    } servers[] = {
#define VT_SERVER(package, cause, remedy) {package, VT_CAUSE_##cause, remedy},
#include "findings/findings.def"
    };
    const uint32_t stack_id = search->trace->events[search->refusal->event_index].stack_id;
    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        for (size_t k = 0; k < search->shortage->cause_count; k++)
            if (search->kinds[k] == servers[i].kind && asks(search->trace, stack_id, servers[i].package))
                search->shortage->causes[k].remedy = servers[i].remedy;
}

void vt_causes_find(const struct vt_report *report, struct vt_shortage *shortage)
{
    static void (*const finders[])(struct vt_cause_search *) = {
#define VT_CAUSE(id, name, certain, examined, remedy, find) find,
#include "findings/findings.def"
    };
    struct vt_cause_search search = {.report = report,
                                     .attribution = report->attribution,
                                     .trace = report->trace,
                                     .replay = report->attribution->replay,
                                     .shortage = shortage,
                                     .refusal = shortage->refusal};
    search.gpu_bytes =
        shortage->refusal->free_known ? shortage->refusal->total_bytes : shortage->refusal->driver_bytes;
    search.there =
        vt_counted_at(search.replay, shortage->refusal->device_index, shortage->refusal->event_index);
    for (size_t i = 0; i < sizeof finders / sizeof *finders && search.gpu_bytes; i++)
        finders[i](&search);
    name_settings(&search);
    free(search.there.items);
    vt_sort(shortage->causes, shortage->cause_count, sizeof *shortage->causes, compare_causes);
}
