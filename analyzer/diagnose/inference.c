/* What a program that only runs models needs: requests, their caches of keys and values, and how much more
 * fits. */
#include <errno.h>
#include <stdlib.h>

#include "diagnose/finders.h"
#include "report/parts.h"

/* True if models were called, and no backward pass ran. */
static bool only_runs_models(const struct vt_attribution *attribution)
{
    bool forward = false;

    for (size_t i = 0; i < attribution->span_count; i++) {
        uint8_t phase = attribution->spans[i].phase;

        if (phase == VT_PHASE_BACKWARD || phase == VT_PHASE_OPTIMIZER)
            return false;
        forward |= phase == VT_PHASE_FORWARD || phase == VT_PHASE_EVAL;
    }
    return forward;
}

static uint64_t cache_bytes(const struct vt_step *step)
{
    return step->end.categories[VT_CATEGORY_KV_CACHE];
}

/* The growth of the cache from call to call, over the longest run of calls of which none drops a quarter of
 * it: blocks are rounded, so a little less is no end. The first call of a run brings a whole prompt and does
 * not count. */
static void find_growth(const struct vt_steps *steps, struct vt_inference *inference)
{
    size_t begin = 0, longest = 0;

    for (size_t i = 0; i < steps->count; i++)
        if (cache_bytes(&steps->items[i]) > inference->cache_bytes)
            inference->cache_bytes = cache_bytes(&steps->items[i]);
    for (size_t i = 1; i <= steps->count; i++) {
        if (i < steps->count && cache_bytes(&steps->items[i]) / 3 >= cache_bytes(&steps->items[i - 1]) / 4)
            continue;
        while (begin < i && cache_bytes(&steps->items[begin]) == 0)
            begin++;
        uint64_t last = cache_bytes(&steps->items[i - 1]),
                 first = begin + 1 < i ? cache_bytes(&steps->items[begin + 1]) : last;
        if (last > first && i - 2 - begin > longest) {
            longest = i - 2 - begin;
            inference->cache_bytes_per_call = (last - first) / longest;
            inference->growth_calls = longest;
        }
        begin = i;
    }
}

static int by_bytes(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* Of a request: its largest moment over what was there before it. */
static int find_requests(const struct vt_steps *steps, struct vt_inference *inference)
{
    uint64_t *bytes = malloc((steps->count + 1) * sizeof *bytes);

    if (!bytes)
        return -ENOMEM;
    for (size_t i = 0; i < steps->count; i++) {
        const struct vt_step *step = &steps->items[i];

        if (step->step == 0 || !step->peak.present)
            continue;
        bytes[inference->requests++] =
            step->peak.used_bytes > step->before_bytes ? step->peak.used_bytes - step->before_bytes : 0;
    }
    if (inference->requests) {
        qsort(bytes, inference->requests, sizeof *bytes, by_bytes);
        inference->request_bytes = bytes[inference->requests / 2];
        inference->largest_request_bytes = bytes[inference->requests - 1];
    }
    free(bytes);
    return 0;
}

/* Free on the card, and in the framework's cache, which it returns to the card before it gives up. */
static void find_room(const struct vt_device_report *device, struct vt_inference *inference)
{
    const struct vt_state *state = &device->shown->state;

    inference->room_known = device->card_total_bytes || device->total_bytes > state->driver_bytes;
    if (!inference->room_known)
        return;
    inference->room_bytes =
        (device->card_total_bytes ? device->card_free_bytes : device->total_bytes - state->driver_bytes) +
        state->categories[VT_CATEGORY_CACHED];
    if (inference->cache_bytes_per_call)
        inference->calls_that_fit = inference->room_bytes / inference->cache_bytes_per_call;
    else if (inference->cache_bytes)
        inference->caches_that_fit = inference->room_bytes / inference->cache_bytes;
}

int vt_inference_find(const struct vt_report *report, const struct vt_device_report *device,
                      struct vt_inference *inference)
{
    struct vt_steps steps = {0};

    *inference = (struct vt_inference){0};
    if (!only_runs_models(report->attribution))
        return 0;
    int error = vt_steps_make(report, device->index, &steps);
    if (!error)
        error = find_requests(&steps, inference);
    if (!error) {
        inference->found = inference->requests > 0;
        inference->concurrent = report->attribution->concurrent_calls;
        inference->threads = report->attribution->calling_threads;
        find_growth(&steps, inference);
        find_room(device, inference);
    }
    free(steps.items);
    return error;
}
