#include "stacks/unloads.h"

#include "vramtrace/format.h"

#define UNLOADED_RANGES 1024u

/* Numbered by the latest unload. Ranges stay, and may overlap: the latest number counts. */
static struct {
    uintptr_t start, end;
    _Atomic uint32_t number;
} ranges[UNLOADED_RANGES];
static _Atomic uint32_t range_count;
static uint32_t latest_number;

_Atomic uintptr_t vt_unloads_start = UINTPTR_MAX, vt_unloads_bytes;

static uint32_t number_at(uintptr_t address)
{
    const uint32_t count = atomic_load_explicit(&range_count, memory_order_acquire);
    uint32_t latest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t number = atomic_load_explicit(&ranges[i].number, memory_order_relaxed);
        if (address - ranges[i].start < ranges[i].end - ranges[i].start && number > latest)
            latest = number;
    }
    return latest;
}

static uint64_t mark_of(uint32_t number)
{
    return (uint64_t)number << VT_ADDRESS_BITS;
}

uint64_t vt_unloads_mark(uintptr_t address)
{
    const uint32_t number = number_at(address);
    return number ? (address & VT_ADDRESS_MASK) | mark_of(number) : address;
}

/* Walks read the start first, so they never see a part of it without the rest. */
static void widen(uintptr_t start, uintptr_t end)
{
    const uintptr_t old_start = atomic_load_explicit(&vt_unloads_start, memory_order_relaxed);
    const uintptr_t old_end = old_start == UINTPTR_MAX
                                  ? 0
                                  : old_start + atomic_load_explicit(&vt_unloads_bytes, memory_order_relaxed);
    const uintptr_t new_start = start < old_start ? start : old_start;
    atomic_store_explicit(&vt_unloads_bytes, (end > old_end ? end : old_end) - new_start,
                          memory_order_release);
    atomic_store_explicit(&vt_unloads_start, new_start, memory_order_release);
}

void vt_unloads_add(uintptr_t start, uintptr_t end)
{
    const uint32_t count = atomic_load_explicit(&range_count, memory_order_relaxed);
    uint32_t at = 0;
    if (++latest_number % (UINT32_C(1) << (64 - VT_ADDRESS_BITS)) == 0)
        latest_number++; /* as a mark it would be none */
    while (at < count && (ranges[at].start != start || ranges[at].end != end))
        at++;
    if (at == UNLOADED_RANGES) { /* the last one stands for all that found no place */
        at--;
        ranges[at].end = ranges[at].end > end ? ranges[at].end : end;
        ranges[at].start = ranges[at].start < start ? ranges[at].start : start;
    } else if (at == count) {
        ranges[at].start = start;
        ranges[at].end = end;
    }
    atomic_store_explicit(&ranges[at].number, latest_number, memory_order_relaxed);
    if (at == count)
        atomic_store_explicit(&range_count, count + 1, memory_order_release);
    widen(start, end);
}

/* Where the next range begins or ends. */
static uintptr_t next_border(uintptr_t after, uintptr_t end)
{
    const uint32_t count = atomic_load_explicit(&range_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        if (ranges[i].start > after && ranges[i].start < end)
            end = ranges[i].start;
        if (ranges[i].end > after && ranges[i].end < end)
            end = ranges[i].end;
    }
    return end;
}

uintptr_t vt_unloads_run(uintptr_t start, uintptr_t end, uint64_t *mark)
{
    const uint32_t number = number_at(start);
    uintptr_t at = next_border(start, end);
    while (at < end && number_at(at) == number)
        at = next_border(at, end);
    *mark = mark_of(number);
    return at;
}
