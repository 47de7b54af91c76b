#include "diagnose/fragmentation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* PyTorch keeps requests up to 1 MiB in segments of 2 MiB and serves larger ones from others; a hole of one
 * pool is of no use to the other. No request of the large pool gets a segment so small, so the size tells. */
#define SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)

struct finding {
    const struct vt_replay *replay;
    int device_index;
    uint32_t event_index;
    struct vt_fragmentation *found;
};

static bool is_alive(const struct finding *finding, const struct vt_allocation *allocation)
{
    return allocation->device_index == finding->device_index && vt_alive_at(allocation, finding->event_index);
}

static const struct vt_allocation *parent_of(const struct vt_replay *replay,
                                             const struct vt_allocation *block)
{
    return block->kind == VT_ALLOCATION_BLOCK && block->parent < replay->allocation_count
               ? &replay->allocations[block->parent]
               : NULL;
}

static bool is_small(const struct vt_allocation *segment)
{
    return segment->bytes <= SMALL_SEGMENT_BYTES;
}

static int by_address(const void *left, const void *right, void *replay)
{
    const struct vt_allocation *allocations = ((const struct vt_replay *)replay)->allocations;
    uint64_t a = allocations[*(const uint32_t *)left].address,
             b = allocations[*(const uint32_t *)right].address;

    return a < b ? -1 : a > b;
}

static bool is_mapping(const struct vt_replay *replay, const struct vt_allocation *segment)
{
    return replay->trace->events[segment->alloc_event].kind == VT_EVENT_HANDLE_CREATE;
}

/* Segments from the allocations in `order`, which are sorted. */
static void make_segments(const struct finding *finding, const uint32_t *order, size_t count)
{
    struct vt_fragmentation *found = finding->found;

    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *allocation = &finding->replay->allocations[order[i]];
        struct vt_segment *last = found->segment_count ? &found->segments[found->segment_count - 1] : NULL;

        found->reserved_bytes += allocation->bytes;
        if (last && is_mapping(finding->replay, allocation) &&
            last->address + last->bytes == allocation->address &&
            is_mapping(finding->replay, &finding->replay->allocations[last->allocation]) &&
            last->small == is_small(allocation)) {
            last->bytes += allocation->bytes;
            continue;
        }
        found->segments[found->segment_count++] = (struct vt_segment){.address = allocation->address,
                                                                      .bytes = allocation->bytes,
                                                                      .allocation = order[i],
                                                                      .pin = VT_NEVER,
                                                                      .small = is_small(allocation)};
    }
}

static void add_hole(struct vt_fragmentation *found, struct vt_segment *segment, uint64_t address,
                     uint64_t end)
{
    struct vt_hole hole = {.address = address, .bytes = end - address};

    if (end <= address)
        return;
    hole.usable = found->least_request_bytes[segment->small] &&
                  hole.bytes >= found->least_request_bytes[segment->small];
    if (hole.bytes > segment->largest_hole_bytes)
        segment->largest_hole_bytes = hole.bytes;
    if (hole.bytes > found->largest_hole_bytes)
        found->largest_hole_bytes = hole.bytes;
    found->hole_bytes += hole.bytes;
    found->unusable_bytes += hole.usable ? 0 : hole.bytes;
    found->holes[found->hole_count++] = hole;
    segment->holes++;
}

static bool stays_longer(const struct vt_replay *replay, uint32_t index, uint32_t than)
{
    const struct vt_allocation *a = &replay->allocations[index], *b;

    if (than == VT_NEVER)
        return true;
    b = &replay->allocations[than];
    return a->free_event != b->free_event ? a->free_event > b->free_event : a->alloc_event < b->alloc_event;
}

/* Blocks and holes of a segment; *next is the first block that may lie in it. */
static void fill_segment(const struct finding *finding, struct vt_segment *segment, size_t *next)
{
    struct vt_fragmentation *found = finding->found;
    const struct vt_allocation *allocations = finding->replay->allocations;
    uint64_t place = segment->address, end = segment->address + segment->bytes;

    segment->first_hole = (uint32_t)found->hole_count;
    while (*next < found->block_count && allocations[found->blocks[*next]].address < place)
        ++*next; /* of memory that is not known */
    segment->first_block = (uint32_t)*next;
    for (; *next < found->block_count && allocations[found->blocks[*next]].address < end; ++*next) {
        const struct vt_allocation *block = &allocations[found->blocks[*next]];
        uint64_t block_end = block->address + block->bytes < end ? block->address + block->bytes : end;

        add_hole(found, segment, place, block->address);
        place = block_end > place ? block_end : place;
        segment->blocks++;
        segment->block_bytes += block->bytes;
        if (stays_longer(finding->replay, found->blocks[*next], segment->pin))
            segment->pin = found->blocks[*next];
    }
    add_hole(found, segment, place, end);
    found->block_bytes += segment->block_bytes;
    if (segment->blocks)
        found->kept_bytes += segment->bytes - segment->block_bytes;
    else
        found->empty_bytes += segment->bytes;
}

static void find_requests(const struct finding *finding)
{
    struct vt_fragmentation *found = finding->found;

    for (size_t i = 0; i < finding->replay->allocation_count; i++) {
        const struct vt_allocation *block = &finding->replay->allocations[i];
        const struct vt_allocation *segment = parent_of(finding->replay, block);
        bool small;

        if (!segment || block->device_index != finding->device_index)
            continue;
        small = is_small(segment);
        if (!found->least_request_bytes[small] || block->bytes < found->least_request_bytes[small])
            found->least_request_bytes[small] = block->bytes;
        if (block->bytes > found->largest_request_bytes[small])
            found->largest_request_bytes[small] = block->bytes;
    }
}

int vt_fragmentation_find(const struct vt_replay *replay, int device_index, uint32_t event_index,
                          struct vt_fragmentation *found)
{
    struct finding finding = {replay, device_index, event_index, found};
    size_t segments = 0, blocks = 0, next = 0;
    uint32_t *order;

    *found = (struct vt_fragmentation){0};
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];

        if (!is_alive(&finding, allocation))
            continue;
        segments += allocation->kind == VT_ALLOCATION_SEGMENT;
        blocks += parent_of(replay, allocation) != NULL;
    }
    order = calloc(segments + 1, sizeof *order);
    found->segments = calloc(segments + 1, sizeof *found->segments);
    found->blocks = calloc(blocks + 1, sizeof *found->blocks);
    found->holes = calloc(segments + blocks + 1, sizeof *found->holes);
    if (!order || !found->segments || !found->blocks || !found->holes) {
        free(order);
        vt_fragmentation_free(found);
        return -ENOMEM;
    }
    segments = 0;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];

        if (is_alive(&finding, allocation) && allocation->kind == VT_ALLOCATION_SEGMENT)
            order[segments++] = i;
        else if (is_alive(&finding, allocation) && parent_of(replay, allocation))
            found->blocks[found->block_count++] = i;
    }
    qsort_r(order, segments, sizeof *order, by_address, (void *)replay);
    qsort_r(found->blocks, found->block_count, sizeof *found->blocks, by_address, (void *)replay);
    make_segments(&finding, order, segments);
    free(order);
    find_requests(&finding);
    for (size_t i = 0; i < found->segment_count; i++)
        fill_segment(&finding, &found->segments[i], &next);
    return 0;
}

void vt_fragmentation_free(struct vt_fragmentation *found)
{
    free(found->segments);
    free(found->blocks);
    free(found->holes);
    *found = (struct vt_fragmentation){0};
}
