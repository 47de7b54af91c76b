/* The column of addresses: what the holes of segments predict is not written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/html/columns.h"
#include "view/html/placement.h"

/* PyTorch's allocator: requests up to 1 MiB are cut from segments of 2 MiB, larger ones from larger segments.
 */
#define SMALL_BLOCK_BYTES (1u << 20)
#define SMALL_SEGMENT_BYTES (2u << 20)

struct addresses {
    const struct vt_page_columns *columns;
    struct vt_placement placement;
    uint32_t *ended;    /* allocations in the order of their ends */
    uint32_t *segments; /* by allocation: the one that a block was cut from */
    size_t ended_count, next_ended;
};

static uint32_t change_of(const struct vt_page_columns *columns, uint32_t event)
{
    return event == VT_PAGE_NEVER ? VT_PAGE_NEVER : columns->changes[event];
}

/* By the change at which they end, those of one change in their own order. -ENOMEM. */
static int order_ends(struct addresses *addresses)
{
    const struct vt_page_columns *columns = addresses->columns;
    size_t *starts = calloc(columns->change_count + 1, sizeof *starts);

    if (!starts)
        return -ENOMEM;
    for (size_t i = 0; i < columns->allocation_count; i++)
        if (columns->items[i].free_event != VT_PAGE_NEVER)
            starts[columns->changes[columns->items[i].free_event] + 1]++;
    for (size_t i = 0; i < columns->change_count; i++)
        starts[i + 1] += starts[i];
    addresses->ended_count = starts[columns->change_count];
    for (size_t i = 0; i < columns->allocation_count; i++)
        if (columns->items[i].free_event != VT_PAGE_NEVER)
            addresses->ended[starts[columns->changes[columns->items[i].free_event]]++] = (uint32_t)i;
    free(starts);
    return 0;
}

static uint64_t units_of(uint64_t bytes)
{
    return bytes / VT_ADDRESS_UNIT + (bytes % VT_ADDRESS_UNIT > 0);
}

static uint64_t bytes_of(const struct addresses *addresses, uint32_t number)
{
    return addresses->columns->sizes.words[addresses->columns->items[number].size];
}

/* Of a block or of a segment: 0 and 1 are large and small of device 0, then of device 1. */
static uint32_t pool_of(const struct addresses *addresses, uint32_t number, uint32_t place)
{
    uint64_t bytes = bytes_of(addresses, number);
    bool small = vt_is_segment_place(place) ? bytes == SMALL_SEGMENT_BYTES : bytes <= SMALL_BLOCK_BYTES;

    return ((place - 1) & ~1u) + small;
}

static uint32_t place_of(const struct addresses *addresses, uint32_t number)
{
    return vt_dictionary_place(addresses->columns->dictionary,
                               addresses->columns->items[number].class_number);
}

static void release(struct addresses *addresses, uint32_t number)
{
    const struct vt_page_columns *columns = addresses->columns;
    const struct vt_page_allocation *item = &columns->items[number], *segment;
    uint32_t place = place_of(addresses, number), home = addresses->segments[number];
    uint64_t size = units_of(bytes_of(addresses, number));

    if (vt_is_segment_place(place))
        vt_placement_drop(&addresses->placement, number, item->address, size);
    if (!place || home == VT_NO_SEGMENT)
        return;
    segment = &columns->items[home];
    if (change_of(columns, segment->free_event) > change_of(columns, item->free_event))
        vt_placement_give(&addresses->placement, home, pool_of(addresses, home, place_of(addresses, home)),
                          item->address, size);
}

/* Where the next allocation is expected; then it takes its place. */
static uint64_t expect(struct addresses *addresses, uint32_t number, uint64_t otherwise)
{
    const struct vt_page_allocation *item = &addresses->columns->items[number];
    uint64_t size = units_of(bytes_of(addresses, number)), start;
    uint32_t place = place_of(addresses, number);

    addresses->segments[number] = VT_NO_SEGMENT;
    if (!place)
        return otherwise;
    if (vt_is_segment_place(place)) {
        vt_placement_give(&addresses->placement, number, pool_of(addresses, number, place), item->address,
                          size);
        return otherwise;
    }
    if (!vt_placement_guess(&addresses->placement, pool_of(addresses, number, place), size, &start))
        start = otherwise;
    addresses->segments[number] = vt_placement_take(&addresses->placement, item->address, size);
    return start;
}

static void put_all(struct addresses *addresses, struct vt_predictor *predictor, struct vt_bytes *raw)
{
    const struct vt_page_columns *columns = addresses->columns;
    uint32_t classes[4] = {0};

    for (uint32_t i = 0; i < columns->allocation_count; i++) {
        const struct vt_page_allocation *item = &columns->items[i];
        uint64_t *last, expected;

        for (; addresses->next_ended < addresses->ended_count; addresses->next_ended++) {
            uint32_t ended = addresses->ended[addresses->next_ended];

            if (change_of(columns, columns->items[ended].free_event) > change_of(columns, item->alloc_event))
                break;
            release(addresses, ended);
        }
        memmove(classes + 1, classes, 3 * sizeof *classes);
        classes[0] = item->class_number;
        last = &predictor->values[vt_context_slot(classes)];
        expected = expect(addresses, i, *last);
        vt_bytes_varint(raw, item->address == expected ? 0 : item->address + 1);
        *last = item->address;
    }
}

int vt_page_addresses_make(const struct vt_page_columns *columns, struct vt_bytes *raw)
{
    struct addresses addresses = {.columns = columns};
    struct vt_predictor *predictor = calloc(1, sizeof *predictor);
    int result = -ENOMEM;

    addresses.ended = malloc((columns->allocation_count + 1) * sizeof *addresses.ended);
    addresses.segments = malloc((columns->allocation_count + 1) * sizeof *addresses.segments);
    if (predictor && addresses.ended && addresses.segments && !order_ends(&addresses)) {
        put_all(&addresses, predictor, raw);
        result = addresses.placement.failed || raw->failed ? -ENOMEM : 0;
    }
    vt_placement_free(&addresses.placement);
    free(addresses.ended);
    free(addresses.segments);
    free(predictor);
    return result;
}
