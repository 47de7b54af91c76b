#include "base/peak.h"

#include <stdlib.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"

struct vt_peak_change {
    uint32_t event;
    int64_t bytes;
};

void vt_peak_add(struct vt_peak *peak, uint32_t begin, uint32_t end, uint64_t bytes)
{
    if (begin == end)
        return;
    VT_APPEND(peak->changes, peak->count, peak->capacity, (struct vt_peak_change){begin, (int64_t)bytes});
    VT_APPEND(peak->changes, peak->count, peak->capacity, (struct vt_peak_change){end, -(int64_t)bytes});
}

static int compare_changes(const void *left, const void *right)
{
    const struct vt_peak_change *a = left, *b = right;
    return 2 * vt_order(a->event, b->event) + vt_order_signed(a->bytes, b->bytes);
}

struct vt_peak_found vt_peak_find(struct vt_peak *peak, uint32_t last)
{
    struct vt_peak_found found = {0};
    int64_t bytes = 0;
    vt_sort(peak->changes, peak->count, sizeof *peak->changes, compare_changes);
    for (size_t i = 0; i < peak->count && peak->changes[i].event <= last; i++) {
        bytes += peak->changes[i].bytes;
        if (bytes > (int64_t)found.bytes) {
            found.bytes = (uint64_t)bytes;
            found.event = peak->changes[i].event;
        }
    }
    found.left = (uint64_t)bytes;
    free(peak->changes);
    *peak = (struct vt_peak){0};
    return found;
}
