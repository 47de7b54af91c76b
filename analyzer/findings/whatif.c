#include "findings/whatif.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

bool vt_whatif_counts(const struct vt_whatif *whatif, const struct vt_allocation *allocation)
{
    if (allocation->device_index != whatif->device_index || (allocation->flags & VT_FLAG_FOREIGN))
        return false;
    if (whatif->blocks)
        return allocation->kind == VT_ALLOCATION_BLOCK;
    return !vt_is_container(allocation) &&
           (allocation->kind == VT_ALLOCATION_DRIVER || allocation->kind == VT_ALLOCATION_POOLED);
}

void vt_whatif_begin(struct vt_whatif *whatif)
{
    whatif->changes = vt_allocate_zeros(whatif->replay->trace->event_count + 1, sizeof *whatif->changes);
}

void vt_whatif_make(const struct vt_replay *replay, int device_index, struct vt_whatif *whatif)
{
    size_t count = replay->trace->event_count;

    *whatif = (struct vt_whatif){
        .replay = replay, .device_index = device_index, .blocks = vt_has_blocks(replay, device_index)};
    whatif->used = vt_allocate_zeros(count + 1, sizeof *whatif->used);
    vt_whatif_begin(whatif);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];

        if (!vt_whatif_counts(whatif, allocation))
            continue;
        whatif->used[allocation->alloc_event] += allocation->bytes;
        if (allocation->free_event < count)
            whatif->used[allocation->free_event] -= allocation->bytes;
    }
    for (size_t i = 0; i < count; i++) {
        whatif->used[i] += i ? whatif->used[i - 1] : 0;
        if ((int64_t)whatif->used[i] > (int64_t)whatif->peak_bytes) {
            whatif->peak_bytes = whatif->used[i];
            whatif->peak_event = (uint32_t)i;
        }
    }
}

void vt_whatif_free(struct vt_whatif *whatif)
{
    free(whatif->used);
    free(whatif->changes);
    vt_savings_free(&whatif->savings);
    *whatif = (struct vt_whatif){0};
}

void vt_whatif_touch(struct vt_whatif *whatif, const struct vt_allocation *allocation)
{
    size_t index = (size_t)(allocation - whatif->replay->allocations);

    if (!whatif->savings.allocations)
        whatif->savings.allocations =
            vt_allocate_zeros(whatif->replay->allocation_count / 64 + 1, sizeof(uint64_t));
    whatif->savings.allocations[index / 64] |= UINT64_C(1) << index % 64;
}

void vt_whatif_less(struct vt_whatif *whatif, const struct vt_allocation *of, uint32_t first, uint32_t end,
                    uint64_t bytes)
{
    size_t count = whatif->replay->trace->event_count;

    if (first >= count || first >= end)
        return;
    if (of)
        vt_whatif_touch(whatif, of);
    whatif->changes[first] -= bytes;
    whatif->changes[end < count ? end : count] += bytes;
}

/* Where the bytes that are saved change too often, each saving is the least of some events: what memory would
 * be is at most what this predicts. */
#define MOST_SAVINGS 4096u

static void list_savings(struct vt_whatif *whatif)
{
    struct vt_savings *savings = &whatif->savings;
    size_t count = whatif->replay->trace->event_count, changes = 0, width = 1;
    uint64_t sum = 0, least = 0;

    for (size_t i = 0; i < count; i++)
        changes += whatif->changes[i] != 0;
    if (changes > MOST_SAVINGS) {
        width = count / MOST_SAVINGS + 1;
        changes = MOST_SAVINGS;
    }
    savings->items = vt_allocate((changes + 1) * sizeof *savings->items);
    for (size_t i = 0; i < count; i++) {
        sum -= whatif->changes[i];
        least = i % width == 0 || (int64_t)sum < (int64_t)least ? sum : least;
        if ((i % width == width - 1 || i + 1 == count) &&
            least != (savings->count ? savings->items[savings->count - 1].bytes : 0))
            savings->items[savings->count++] = (struct vt_saving){(uint32_t)(i / width * width), least};
    }
}

uint64_t vt_whatif_saves(struct vt_whatif *whatif)
{
    size_t count = whatif->replay->trace->event_count;
    uint64_t sum = 0, peak = 0;

    for (size_t i = 0; i < count; i++) {
        sum += whatif->changes[i];
        peak = (int64_t)(whatif->used[i] + sum) > (int64_t)peak ? whatif->used[i] + sum : peak;
    }
    free(whatif->savings.items);
    whatif->savings.items = NULL;
    whatif->savings.count = 0;
    if (peak < whatif->peak_bytes)
        list_savings(whatif);
    memset(whatif->changes, 0, (count + 1) * sizeof *whatif->changes);
    return peak < whatif->peak_bytes ? whatif->peak_bytes - peak : 0;
}

struct vt_savings vt_whatif_take(struct vt_whatif *whatif)
{
    struct vt_savings savings = whatif->savings;

    whatif->savings = (struct vt_savings){0};
    return savings;
}

void vt_savings_free(struct vt_savings *savings)
{
    free(savings->items);
    free(savings->allocations);
    *savings = (struct vt_savings){0};
}
