#include "findings/adviser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/sort.h"

#define VT_REMEDY(id, what, how) const struct vt_remedy vt_remedy_##id = {what, how};
#include "findings/findings.def"

static void count_passes(struct vt_adviser *adviser)
{
    const struct vt_attribution *attribution = adviser->attribution;
    uint32_t count = 0;
    adviser->passes = vt_allocate_zeros(adviser->replay->trace->event_count + 1, sizeof *adviser->passes);
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];
        count += span->phase == VT_PHASE_BACKWARD;
        for (uint32_t event = span->first_event; event <= span->last_event; event++)
            adviser->passes[event] = count;
    }
}

static uint64_t frames_key(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    uint64_t key = stack->python_count ? VT_HASH_START : stack_id;
    for (uint32_t i = 0; i < stack->python_count; i++)
        key = vt_mix(vt_mix(key, vt_trace_line_key(trace, &stack->python[i])), stack->python[i].self_address);
    return key;
}

static void find_lines(struct vt_adviser *adviser)
{
    const struct vt_trace *trace = adviser->replay->trace;
    struct vt_index known = {0};
    adviser->lines = vt_allocate_zeros(trace->stack_count + 1, sizeof *adviser->lines);
    adviser->line_traits = vt_allocate_zeros(trace->stack_count + 1, sizeof *adviser->line_traits);
    for (uint32_t i = 1; i < trace->stack_count; i++) {
        adviser->lines[i] = vt_index_add(&known, frames_key(trace, i), i);
        adviser->line_traits[adviser->lines[i]] |= vt_stack_traits_of(adviser->attribution, i)->traits;
    }
    vt_index_free(&known);
}

bool vt_is_of_script(const struct vt_adviser *adviser, uint32_t allocation)
{
    return adviser->attribution->labels[allocation].category != VT_CATEGORY_WORKSPACE &&
           vt_whatif_counts(&adviser->whatif, &adviser->replay->allocations[allocation]);
}

static bool is_of_backward(const struct vt_adviser *adviser, uint32_t allocation)
{
    return adviser->attribution->labels[allocation].phase == VT_PHASE_BACKWARD;
}

uint32_t vt_line_of(const struct vt_adviser *adviser, uint32_t allocation)
{
    return adviser->lines[is_of_backward(adviser, allocation)
                              ? adviser->attribution->labels[allocation].forward_stack_id
                              : adviser->replay->allocations[allocation].stack_id];
}

uint64_t vt_forward_traits(const struct vt_adviser *adviser, uint32_t allocation)
{
    if (is_of_backward(adviser, allocation))
        return adviser->line_traits[vt_line_of(adviser, allocation)];
    return vt_stack_traits_of(adviser->attribution, adviser->replay->allocations[allocation].stack_id)
        ->traits;
}

/* The first allocation from `index` on that was made after `event`. */
static uint32_t skip_to(const struct vt_replay *replay, uint32_t index, uint32_t event)
{
    while (index < replay->allocation_count && replay->allocations[index].alloc_event <= event)
        index++;
    return index;
}

bool vt_next_backward(const struct vt_adviser *adviser, struct vt_backward *backward)
{
    const struct vt_attribution *attribution = adviser->attribution;
    const struct vt_span *span = backward->span ? backward->span + 1 : attribution->spans;
    while (span < attribution->spans + attribution->span_count && span->phase != VT_PHASE_BACKWARD)
        span++;
    if (span == attribution->spans + attribution->span_count)
        return false;
    backward->span = span;
    backward->first = backward->end;
    backward->begin =
        span->first_event ? skip_to(adviser->replay, backward->first, span->first_event - 1) : 0;
    backward->end = skip_to(adviser->replay, backward->begin, span->last_event);
    return true;
}

void vt_adviser_make(const struct vt_report *report, int device_index, struct vt_adviser *adviser)
{
    *adviser = (struct vt_adviser){
        .report = report, .attribution = report->attribution, .replay = report->attribution->replay};
    vt_whatif_make(adviser->replay, device_index, &adviser->whatif);
    count_passes(adviser);
    find_lines(adviser);
}

void vt_adviser_free(struct vt_adviser *adviser)
{
    vt_whatif_free(&adviser->whatif);
    free(adviser->passes);
    free(adviser->lines);
    free(adviser->line_traits);
}

bool vt_is_worth_advice(const struct vt_advices *advices, uint64_t bytes)
{
    return bytes && bytes >= advices->peak_bytes / 100;
}

struct vt_advice *vt_advice_add(struct vt_advices *advices, const char *kind, uint64_t bytes,
                                const char *what, const char *why, va_list arguments)
{
    if (!vt_is_worth_advice(advices, bytes) || advices->count == VT_ADVICE_LIMIT)
        return NULL;
    if (!advices->items)
        advices->items = vt_allocate_zeros(VT_ADVICE_LIMIT, sizeof *advices->items);
    struct vt_advice *advice = &advices->items[advices->count++];
    *advice = (struct vt_advice){.kind = kind,
                                 .where = "",
                                 .how = "",
                                 .bytes = bytes,
                                 .share = (double)bytes / (double)advices->peak_bytes};
    snprintf(advice->what, sizeof advice->what, "%s", what);
    vsnprintf(advice->why, sizeof advice->why, why, arguments);
    return advice;
}

/* The sentence of a remedy, which fits if what it is about can be cut: the end of a module's name says most.
 */
static void write_what(const struct vt_remedy *remedy, const char *subject, char *text, size_t bytes)
{
    const char *gap = strstr(remedy->what, "%s");
    int before = gap ? (int)(gap - remedy->what) : (int)strlen(remedy->what);
    const char *after = gap ? gap + 2 : "";
    size_t space = (size_t)(VT_ADVICE_COLUMNS - before) - strlen(after), length = strlen(subject);
    bool cut = gap && remedy->how[0] && length > space;
    snprintf(text, bytes, "%.*s%s%s%s", before, remedy->what, cut ? "…" : "",
             gap ? subject + (cut ? length - space + 1 : 0) : "", after);
}

void vt_advise(struct vt_adviser *adviser, enum vt_advice_kind kind, uint64_t bytes,
               struct vt_advice_subject about, const struct vt_remedy *remedy, const char *why, ...)
{
    static const char *const names[] = {
#define VT_ADVICE(id, name, find, change) name,
#include "findings/findings.def"
    };
    va_list arguments;
    va_start(arguments, why);
    struct vt_advice *advice = vt_advice_add(adviser->advices, names[kind], bytes, "", why, arguments);
    va_end(arguments);
    struct vt_savings savings = vt_whatif_take(&adviser->whatif);
    if (!advice) {
        vt_savings_free(&savings);
        return;
    }
    advice->savings = savings;
    write_what(remedy, about.subject ? about.subject : "", advice->what, sizeof advice->what);
    advice->how = remedy->how;
    advice->stack_id = about.stack_id;
    snprintf(advice->module, sizeof advice->module, "%.150s", about.module ? about.module : "");
}

static int compare_advice(const void *left, const void *right)
{
    const struct vt_advice *a = left, *b = right;
    bool leak = !strcmp(a->kind, "leak"), other = !strcmp(b->kind, "leak");
    if (leak != other) /* it grows: nothing else helps for long */
        return leak ? -1 : 1;
    return a->bytes != b->bytes ? vt_order(b->bytes, a->bytes) : strcmp(a->kind, b->kind);
}

void vt_advices_sort(struct vt_advices *advices)
{
    vt_sort(advices->items, advices->count, sizeof *advices->items, compare_advice);
}
