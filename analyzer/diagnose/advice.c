#include <stdlib.h>
#include <string.h>

#include "diagnose/adviser.h"
#include "diagnose/finders.h"

/* Only what the cache held in empty segments: frag reports free bytes beside blocks in use, which no setting
 * is sure to return. */
int vt_advise_empty_cache(struct vt_adviser *adviser)
{
    struct vt_fragmentation found;
    int error = vt_fragmentation_find(adviser->replay, adviser->whatif.device_index,
                                      adviser->whatif.peak_event, &found);
    if (error)
        return error;
    vt_advise(
        adviser, VT_ADVICE_EMPTY_CACHE, found.empty_bytes, 0, "", "torch.cuda.empty_cache() before the peak",
        "That much of the cache was in empty segments at the peak. empty_cache() returns it to the card; "
        "memory in use stays");
    vt_fragmentation_free(&found);
    return 0;
}

static int compare_advice(const void *left, const void *right)
{
    const struct vt_advice *a = left, *b = right;
    return a->bytes != b->bytes ? vt_order(b->bytes, a->bytes) : strcmp(a->kind, b->kind);
}

int vt_advice_find(const struct vt_report *report, int device_index, struct vt_advices *advices)
{
    static int (*const finders[])(struct vt_adviser *) = {
#define X(id, name, find) find,
        VT_ADVICE_KINDS(X)
#undef X
    };
    struct vt_adviser adviser;
    int error = vt_adviser_make(report, device_index, advices, &adviser);
    for (size_t i = 0; !error && advices->peak_bytes && i < sizeof finders / sizeof *finders; i++)
        error = finders[i](&adviser);
    vt_adviser_free(&adviser);
    if (error) {
        free(advices->items);
        *advices = (struct vt_advices){0};
        return error;
    }
    qsort(advices->items, advices->count, sizeof *advices->items, compare_advice);
    for (size_t i = 0; i < advices->count; i++) {
        struct vt_advice *advice = &advices->items[i];
        const struct vt_place *place =
            advice->stack_id ? vt_place_of(report->places, advice->stack_id) : NULL;
        advice->where = place ? place->name : advice->module;
    }
    return 0;
}
