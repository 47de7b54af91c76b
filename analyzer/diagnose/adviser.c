#include "diagnose/adviser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/sort.h"

#define VT_REMEDY(id, text) const char vt_remedy_##id[] = text;
#include "diagnose/remedies.def"

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

void vt_adviser_make(const struct vt_report *report, int device_index, struct vt_adviser *adviser)
{
    *adviser = (struct vt_adviser){
        .report = report, .attribution = report->attribution, .replay = report->attribution->replay};
    vt_whatif_make(adviser->replay, device_index, &adviser->whatif);
    count_passes(adviser);
}

void vt_adviser_free(struct vt_adviser *adviser)
{
    vt_whatif_free(&adviser->whatif);
    free(adviser->passes);
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
    *advice = (struct vt_advice){
        .kind = kind, .where = "", .bytes = bytes, .share = (double)bytes / (double)advices->peak_bytes};
    snprintf(advice->what, sizeof advice->what, "%s", what);
    vsnprintf(advice->why, sizeof advice->why, why, arguments);
    return advice;
}

void vt_advise(struct vt_adviser *adviser, enum vt_advice_kind kind, uint64_t bytes, uint32_t stack_id,
               const char *module, const char *what, const char *why, ...)
{
    static const char *const names[] = {
#define VT_ADVICE(id, name, find) name,
#include "diagnose/remedies.def"
    };
    va_list arguments;
    va_start(arguments, why);
    struct vt_advice *advice = vt_advice_add(adviser->advices, names[kind], bytes, what, why, arguments);
    va_end(arguments);
    if (!advice)
        return;
    advice->stack_id = stack_id;
    snprintf(advice->module, sizeof advice->module, "%.150s", module);
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
