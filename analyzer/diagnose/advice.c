#include "diagnose/advice_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diagnose/fragmentation.h"

#define LIMIT 16 /* pieces of advice */

struct vt_advice *vt_advise(struct vt_adviser *adviser, const char *kind, uint64_t bytes)
{
    struct vt_advices *advices = adviser->advices;

    if (!bytes || bytes * 100 < advices->peak_bytes || advices->count == LIMIT)
        return NULL;
    advices->items[advices->count] = (struct vt_advice){.kind = kind, .bytes = bytes};
    return &advices->items[advices->count++];
}

/* What the framework held at the peak for nobody. What lies beside blocks in use is told by frag: no setting
 * is sure to give it back. */
static int advise_cache(struct vt_adviser *adviser)
{
    struct vt_fragmentation found;
    struct vt_advice *advice;
    int error = vt_fragmentation_find(adviser->replay, adviser->whatif.device_index,
                                      adviser->whatif.peak_event, &found);

    if (error)
        return error;
    advice = vt_advise(adviser, "empty_cache", found.empty_bytes);
    if (advice) {
        snprintf(advice->what, sizeof advice->what, "torch.cuda.empty_cache() before the peak");
        snprintf(advice->why, sizeof advice->why,
                 "so much lay in the cache then, in segments without any block: the card gets it back for "
                 "others; what is in "
                 "use stays");
    }
    vt_fragmentation_free(&found);
    return 0;
}

static int by_bytes(const void *left, const void *right)
{
    const struct vt_advice *a = left, *b = right;

    return a->bytes != b->bytes ? (a->bytes > b->bytes ? -1 : 1) : strcmp(a->kind, b->kind);
}

static int count_passes(struct vt_adviser *adviser)
{
    const struct vt_attribution *attribution = adviser->attribution;
    uint32_t count = 0;

    adviser->passes = calloc(adviser->replay->trace->event_count + 1, sizeof *adviser->passes);
    if (!adviser->passes)
        return -ENOMEM;
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];

        count += span->phase == VT_PHASE_BACKWARD;
        for (uint32_t event = span->first_event; event <= span->last_event; event++)
            adviser->passes[event] = count;
    }
    return 0;
}

/* Where a piece is about, in words. */
static void describe(const struct vt_adviser *adviser, struct vt_advice *advice)
{
    const struct vt_place *place = advice->stack_id && !advice->module[0]
                                       ? vt_place_of(adviser->report->places, advice->stack_id)
                                       : NULL;

    advice->where = place ? place->name : advice->module;
    advice->share = (double)advice->bytes / (double)adviser->advices->peak_bytes;
}

int vt_advice_find(const struct vt_report *report, int device_index, struct vt_advices *advices)
{
    static int (*const finders[])(struct vt_adviser *) = {vt_advise_gradients,   vt_advise_evaluation,
                                                          vt_advise_optimizer,   vt_advise_in_place,
                                                          vt_advise_checkpoints, advise_cache};
    struct vt_adviser adviser = {.report = report,
                                 .attribution = report->attribution,
                                 .replay = report->attribution->replay,
                                 .advices = advices};
    int error;

    *advices = (struct vt_advices){.items = calloc(LIMIT, sizeof *advices->items)};
    error = advices->items ? vt_whatif_make(adviser.replay, device_index, &adviser.whatif) : -ENOMEM;
    if (!error)
        error = count_passes(&adviser);
    advices->peak_bytes = adviser.whatif.peak_bytes;
    for (size_t i = 0; !error && advices->peak_bytes && i < sizeof finders / sizeof *finders; i++)
        error = finders[i](&adviser);
    vt_whatif_free(&adviser.whatif);
    free(adviser.passes);
    if (error) {
        free(advices->items);
        *advices = (struct vt_advices){0};
        return error;
    }
    qsort(advices->items, advices->count, sizeof *advices->items, by_bytes);
    for (size_t i = 0; i < advices->count; i++)
        describe(&adviser, &advices->items[i]);
    return 0;
}
