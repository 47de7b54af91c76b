#include "findings/advice.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/task.h"
#include "findings/adviser.h"
#include "findings/fragmentation.h"
#include "findings/leaks/verdicts.h"
#include "report/report.h"

/* The event after which nothing needs what a leak keeps from a step: a graph that no backward reaches is
 * not needed once it is made; other memory may be in use until the step ends. `ends`: by step. */
static void find_ends(const struct vt_adviser *adviser, const struct vt_leak *leak, uint32_t *ends)
{
    const struct vt_attribution *attribution = adviser->attribution;
    bool at_once = leak->verdict == VT_LEAK_GRAPH || leak->verdict == VT_LEAK_EVALUATION;

    for (size_t i = 0; i < attribution->span_count && !at_once; i++)
        if (attribution->spans[i].step <= attribution->step_count)
            ends[attribution->spans[i].step] = attribution->spans[i].last_event + 1;
    for (size_t i = 0; i < leak->kept_count && at_once; i++)
        ends[attribution->labels[leak->kept[i]].step] =
            adviser->replay->allocations[leak->kept[i]].alloc_event + 1;
}

static uint64_t kept_bytes(const struct vt_adviser *adviser, const struct vt_leak *leak)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < leak->kept_count; i++)
        bytes += adviser->replay->allocations[leak->kept[i]].bytes;
    return bytes;
}

/* What leaks hold at the peak. (Each what-if walks all events, so there is one for few leaks only.) */
void vt_advise_leak(struct vt_adviser *adviser)
{
    const struct vt_leaks *leaks = &vt_report_device(adviser->report, adviser->whatif.device_index)->leaks;
    uint32_t *ends = leaks->leak_count
                         ? vt_allocate_zeros((size_t)adviser->attribution->step_count + 1, sizeof *ends)
                         : NULL;

    for (size_t i = 0; i < leaks->leak_count; i++) {
        const struct vt_leak *leak = &leaks->items[i];

        if (!vt_is_worth_advice(adviser->advices, kept_bytes(adviser, leak)))
            continue;
        find_ends(adviser, leak, ends);
        for (size_t k = 0; k < leak->kept_count; k++) {
            const struct vt_allocation *block = &adviser->replay->allocations[leak->kept[k]];

            if (vt_whatif_counts(&adviser->whatif, block))
                vt_whatif_less(&adviser->whatif, block,
                               ends[adviser->attribution->labels[leak->kept[k]].step], block->free_event,
                               block->bytes);
        }
        const struct vt_remedy remedy = {vt_remedy_leak.what, leak->remedy};
        vt_advise(adviser, VT_ADVICE_LEAK, vt_whatif_saves(&adviser->whatif),
                  (struct vt_advice_subject){.stack_id = leak->stack_id, .subject = leak->name}, &remedy,
                  "Kept alive by a leak (%s)", leak->name);
    }
    free(ends);
}

struct vt_reserved_unused vt_reserved_unused_at(const struct vt_report *report, int device_index,
                                                uint32_t event_index)
{
    struct vt_fragmentation found =
        vt_fragmentation_find(report->attribution->replay, device_index, event_index);
    struct vt_reserved_unused unused = {0};
    if (found.returnable_bytes && found.returnable_bytes >= found.reserved_bytes / 100)
        unused = (struct vt_reserved_unused){.bytes = found.returnable_bytes,
                                             .share = (double)found.returnable_bytes /
                                                      (double)found.reserved_bytes,
                                             .remedy = found.release};
    vt_fragmentation_free(&found);
    return unused;
}

static void (*const finders[])(struct vt_adviser *) = {
#define VT_ADVICE(id, name, find, change) find,
#include "findings/findings.def"
};

#define KINDS (sizeof finders / sizeof *finders)

/* All advice. Leaks are found meanwhile; the thread that found them then helps. */
struct vt_advice_search {
    const struct vt_report *report;
    struct vt_adviser adviser;
    int device_index;
    struct vt_advices found[KINDS]; /* by kind */
    atomic_bool ready, taken[KINDS];
    struct vt_advices *target; /* where all goes in the end */
    struct vt_task task;
};

static void find_kind(struct vt_advice_search *search, struct vt_adviser *adviser, size_t kind)
{
    struct vt_advices *found = &search->found[kind];
    found->peak_bytes = adviser->whatif.peak_bytes;
    adviser->advices = found;
    if (found->peak_bytes)
        finders[kind](adviser);
    vt_savings_free(&adviser->whatif.savings);
}

/* From the first kind on. */
static int find_all_but_leaks(void *context)
{
    struct vt_advice_search *search = context;
    vt_adviser_make(search->report, search->device_index, &search->adviser);
    struct vt_adviser own = search->adviser;
    atomic_store(&search->ready, true);
    for (size_t i = VT_ADVICE_LEAK + 1; i < KINDS; i++)
        if (!atomic_exchange(&search->taken[i], true))
            find_kind(search, &own, i);
    return 0;
}

/* From the last kind backwards, those that the other thread has not begun. */
static void help_find(struct vt_advice_search *search)
{
    if (!atomic_load(&search->ready))
        return;
    struct vt_adviser own = search->adviser;
    own.whatif.changes = NULL;
    for (size_t i = KINDS; i-- > VT_ADVICE_LEAK + 1;) {
        if (atomic_exchange(&search->taken[i], true))
            continue;
        if (!own.whatif.changes)
            vt_whatif_begin(&own.whatif);
        find_kind(search, &own, i);
    }
    free(own.whatif.changes);
}

struct vt_advice_search *vt_advice_begin(const struct vt_report *report, int device_index,
                                         struct vt_advices *advices)
{
    struct vt_advice_search *search = vt_allocate_zeros(1, sizeof *search);
    search->report = report;
    search->device_index = device_index;
    search->target = advices;
    vt_task_begin(&search->task, find_all_but_leaks, search);
    return search;
}

static bool are_of_same(const struct vt_advice *one, const struct vt_advice *other, size_t words)
{
    const uint64_t *left = one->savings.allocations, *right = other->savings.allocations;
    bool same = !left || !right;
    for (size_t i = 0; i < words && !same; i++)
        same = left[i] & right[i];
    return same;
}

static void find_same(struct vt_advices *all, size_t words)
{
    for (size_t i = 0; i < all->count; i++) {
        all->items[i].same = vt_allocate(all->count * sizeof *all->items[i].same);
        for (size_t k = 0; k < all->count; k++)
            if (i != k && are_of_same(&all->items[i], &all->items[k], words))
                all->items[i].same[all->items[i].same_count++] = k;
    }
    for (size_t i = 0; i < all->count; i++) {
        free(all->items[i].savings.allocations);
        all->items[i].savings.allocations = NULL;
    }
}

static void set_change(struct vt_advice *advice)
{
    static const struct {
        const char *name, *change;
    } kinds[] = {
#define VT_ADVICE(id, name, find, change) {name, change},
#include "findings/findings.def"
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t bytes = strlen(kinds[i].change);
        const bool asks = bytes && kinds[i].change[bytes - 1] == '=';
        if (!strcmp(kinds[i].name, advice->kind))
            snprintf(advice->change, sizeof advice->change, "%s%s", kinds[i].change,
                     asks ? advice->module : "");
    }
}

static void collect_advice(struct vt_advice_search *search, struct vt_advices *all)
{
    *all = (struct vt_advices){.peak_bytes = search->adviser.whatif.peak_bytes,
                               .items = vt_allocate_zeros(VT_ADVICE_LIMIT, sizeof *all->items)};
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < search->found[kind].count && all->count < VT_ADVICE_LIMIT; i++)
            all->items[all->count++] = search->found[kind].items[i];
    vt_advices_sort(all);
    find_same(all, search->adviser.replay->allocation_count / 64 + 1);
    for (size_t i = 0; i < all->count; i++) {
        struct vt_advice *advice = &all->items[i];
        const struct vt_place *place =
            advice->stack_id ? vt_place_of(search->report->places, advice->stack_id) : NULL;
        advice->where = place ? place->name : advice->module;
        set_change(advice);
    }
}

void vt_advice_end(struct vt_advice_search *search)
{
    help_find(search);
    vt_task_end(&search->task);
    find_kind(search, &search->adviser, VT_ADVICE_LEAK);
    collect_advice(search, search->target);
    for (size_t kind = 0; kind < KINDS; kind++)
        free(search->found[kind].items);
    vt_adviser_free(&search->adviser);
    free(search);
}
