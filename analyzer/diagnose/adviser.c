#include "diagnose/adviser.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/allocate.h"

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

bool vt_is_worth_advice(const struct vt_adviser *adviser, uint64_t bytes)
{
    return bytes && bytes >= adviser->advices->peak_bytes / 100;
}

void vt_advise(struct vt_adviser *adviser, enum vt_advice_kind kind, uint64_t bytes, uint32_t stack_id,
               const char *module, const char *what, const char *why, ...)
{
    static const char *const names[] = {
#define VT_ADVICE(id, name, find) name,
#include "diagnose/remedies.def"
    };
    struct vt_advices *advices = adviser->advices;
    va_list arguments;
    if (!vt_is_worth_advice(adviser, bytes) || advices->count == VT_ADVICE_LIMIT)
        return;
    struct vt_advice *advice = &advices->items[advices->count++];
    *advice = (struct vt_advice){.kind = names[kind],
                                 .stack_id = stack_id,
                                 .bytes = bytes,
                                 .share = (double)bytes / (double)advices->peak_bytes};
    snprintf(advice->what, sizeof advice->what, "%s", what);
    va_start(arguments, why);
    vsnprintf(advice->why, sizeof advice->why, why, arguments);
    va_end(arguments);
    snprintf(advice->module, sizeof advice->module, "%.150s", module);
}
