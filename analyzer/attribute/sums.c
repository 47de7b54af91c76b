#include "attribute/sums.h"
#include "replay/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct walk {
    const struct vt_attribution *attribution;
    struct vt_sums sums;
    vt_category_visit visit;
    void *context;
};

static void change(void *context, uint32_t index, bool begins)
{
    struct walk *walk = context;
    const struct vt_label *label = &walk->attribution->labels[index];
    uint64_t bytes = vt_allocation_own_bytes(&walk->attribution->replay->allocations[index]);
    if (bytes == 0)
        return;
    walk->sums.categories[label->category] += begins ? bytes : 0 - bytes;
    if (label->gathered && label->category == VT_CATEGORY_PARAMETER)
        walk->sums.gathered_bytes += begins ? bytes : 0 - bytes;
    if (label->is_half_copy)
        walk->sums.half_copy_bytes += begins ? bytes : 0 - bytes;
    walk->sums.rounding_bytes += begins ? label->rounding_bytes : 0 - label->rounding_bytes;
}

static int visit(void *context, uint32_t event_index, const struct vt_counts *counts)
{
    struct walk *walk = context;
    walk->sums.counts = *counts;
    walk->sums.categories[VT_CATEGORY_CACHED] = counts->cached_bytes;
    return walk->visit(walk->context, event_index, &walk->sums);
}

int vt_category_walk(const struct vt_attribution *attribution, int device_index, vt_category_visit each,
                     void *context)
{
    struct walk walk = {.attribution = attribution, .visit = each, .context = context};
    const struct vt_replay_visitor visitor = {.change = change, .visit = visit, .context = &walk};
    return vt_replay_walk(attribution->replay, device_index, &visitor);
}

static int verify_event(void *context, uint32_t event_index, const struct vt_sums *sums)
{
    struct vt_category_check *check = context;
    const struct vt_counts *counts = &sums->counts;
    uint64_t sum = 0;
    char what[160];
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        sum += c == VT_CATEGORY_HOST_PINNED ? 0 : sums->categories[c];
    check->events++;
    if (sum != counts->driver_bytes)
        snprintf(what, sizeof what, "the categories sum to %" PRIu64 ", the driver gave %" PRIu64, sum,
                 counts->driver_bytes);
    else if (sums->categories[VT_CATEGORY_CACHED] > counts->segment_bytes)
        snprintf(what, sizeof what, "%" PRIu64 " bytes are cached, the segments hold %" PRIu64,
                 sums->categories[VT_CATEGORY_CACHED], counts->segment_bytes);
    else if (sums->categories[VT_CATEGORY_HOST_PINNED] != counts->host_pinned_bytes)
        snprintf(what, sizeof what, "host_pinned is %" PRIu64 ", page-locked memory has %" PRIu64 " bytes",
                 sums->categories[VT_CATEGORY_HOST_PINNED], counts->host_pinned_bytes);
    else
        return 0;
    check->breaches++;
    if (check->breach)
        check->breach(check->context, event_index, what);
    return 0;
}

int vt_category_verify(const struct vt_attribution *attribution, int device_index,
                       struct vt_category_check *check)
{
    uint64_t before = check->breaches;
    vt_category_walk(attribution, device_index, verify_event, check);
    return check->breaches == before ? 0 : -EINVAL;
}
