/* What is still allocated at the end, by the line that made it: all that can be said where steps cannot be
 * compared. */
#include "findings/leaks/remaining.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "replay/replay.h"
#include "report/report.h"

static int compare_parts(const void *a, const void *b)
{
    const struct vt_leak_part *left = a, *right = b;
    return 2 * vt_order(right->bytes, left->bytes) + vt_order(left->stack_id, right->stack_id);
}

static bool remains(const struct vt_allocation *allocation, int device_index, bool with_host)
{
    return allocation->free_event == VT_NEVER &&
           (allocation->kind == VT_ALLOCATION_HOST ? with_host : allocation->device_index == device_index) &&
           allocation->stack_id != 0 && !vt_is_container(allocation) &&
           !(allocation->flags & VT_FLAG_FOREIGN);
}

void vt_leak_remaining_find(const struct vt_attribution *attribution, struct vt_places *places,
                            int device_index, bool with_host, struct vt_leaks *leaks)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_index lines = {0};
    size_t capacity = 0;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        const uint8_t category = attribution->labels[i].category;
        if (!remains(block, device_index, with_host) ||
            (category == VT_CATEGORY_WORKSPACE && block->kind == VT_ALLOCATION_BLOCK))
            continue;
        const struct vt_place *place = vt_place_of(places, block->stack_id);
        if (!place)
            continue;
        uint64_t line = vt_hash_bytes(place->name, strlen(place->name), VT_HASH_START);
        uint32_t at = vt_index_get(&lines, line);
        if (at == VT_INDEX_NONE) {
            at = (uint32_t)leaks->remaining_count;
            vt_index_put(&lines, line, at);
            VT_APPEND(leaks->remaining, leaks->remaining_count, capacity,
                      (struct vt_leak_part){.stack_id = block->stack_id,
                                            .category = category,
                                            .place = place,
                                            .operator_name = vt_operator_of(attribution, block->stack_id)});
        }
        leaks->remaining[at].bytes += block->bytes;
        leaks->remaining[at].blocks++;
    }
    vt_index_free(&lines);
    vt_sort(leaks->remaining, leaks->remaining_count, sizeof *leaks->remaining, compare_parts);
}
