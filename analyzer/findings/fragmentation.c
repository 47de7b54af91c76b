#include "findings/fragmentation.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "findings/streams.h"
#include "replay/replay.h"
#include "report/blocks.h"
#include "report/report.h"
#include "trace/frameworks.h"
#include "trace/places.h"
#include "trace/settings.h"
#include "format/allocator.h"

/* PyTorch keeps requests up to 1 MiB in segments of 2 MiB and serves larger ones from others; a hole of one
 * pool is of no use to the other. No request of the large pool gets a segment so small, so the size shows the
 * pool. */

struct finding {
    const struct vt_replay *replay;
    int device_index;
    uint32_t event_index;
    struct vt_fragmentation *found;
    uint64_t gpu_bytes; /* as good as endless = not known */
    uint16_t *places;   /* by allocation: a segment's (trace/places.h); NULL = there is only one stream */
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

static bool is_small(const struct finding *finding, const struct vt_allocation *segment)
{
    return finding->found->has_pools && segment->bytes <= VT_TORCH_SMALL_SEGMENT_BYTES;
}

/* A block that came with its allocator's own total: of all frameworks, PyTorch's do. */
static bool is_counted(const struct vt_allocation *allocation)
{
    return allocation->kind == VT_ALLOCATION_BLOCK && !(allocation->flags & VT_FLAG_UNCOUNTED);
}

bool vt_counts_blocks(const struct vt_replay *replay)
{
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (is_counted(&replay->allocations[i]))
            return true;
    return false;
}

static int by_address(const void *left, const void *right, void *replay)
{
    const struct vt_allocation *allocations = ((const struct vt_replay *)replay)->allocations;
    return vt_order(allocations[*(const uint32_t *)left].address,
                    allocations[*(const uint32_t *)right].address);
}

bool vt_is_mapping(const struct vt_replay *replay, const struct vt_allocation *segment)
{
    return replay->trace->events[segment->alloc_event].kind == VT_EVENT_HANDLE_CREATE;
}

/* The allocator cuts a segment only for the stream that it was made on, so that any block in it shows the
 * stream; pieces of an expandable segment that never held one are next to one that did. */
static void find_places(struct finding *finding)
{
    const struct vt_replay *replay = finding->replay;
    if (!replay->trace->event_places)
        return;
    finding->places = vt_allocate_zeros(replay->allocation_count + 1, sizeof *finding->places);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (parent_of(replay, block))
            finding->places[block->parent] = (uint16_t)vt_trace_place(replay->trace, block->alloc_event);
    }
}

static uint32_t place_of(const struct finding *finding, uint32_t segment)
{
    return finding->places ? finding->places[segment] : 0;
}

static uint32_t stream_of(const struct finding *finding, uint32_t segment)
{
    const uint32_t place = place_of(finding, segment);
    return place ? finding->replay->trace->places[place].number : 0;
}

static bool is_one_stream(const struct vt_segment *segment, uint32_t place)
{
    return !segment->place || !place || segment->place == place;
}

/* Segments from the allocations in `order`, which are sorted. */
static void make_segments(const struct finding *finding, const uint32_t *order, size_t count)
{
    struct vt_fragmentation *found = finding->found;

    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *allocation = &finding->replay->allocations[order[i]];
        struct vt_segment *last = found->segment_count ? &found->segments[found->segment_count - 1] : NULL;

        found->reserved_bytes += allocation->bytes;
        if (last && vt_is_mapping(finding->replay, allocation) &&
            last->address + last->bytes == allocation->address &&
            vt_is_mapping(finding->replay, &finding->replay->allocations[last->allocation]) &&
            last->small == is_small(finding, allocation) &&
            is_one_stream(last, place_of(finding, order[i]))) {
            last->place = last->place ? last->place : place_of(finding, order[i]);
            last->bytes += allocation->bytes;
            continue;
        }
        found->segments[found->segment_count++] =
            (struct vt_segment){.address = allocation->address,
                                .bytes = allocation->bytes,
                                .allocation = order[i],
                                .place = place_of(finding, order[i]),
                                .stream = stream_of(finding, order[i]),
                                .pool = is_small(finding, allocation) ? "small" : "large",
                                .small = is_small(finding, allocation)};
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
    segment->hole_count++;
}

static bool stays_longer(const struct vt_replay *replay, const struct vt_block *block,
                         const struct vt_block *than)
{
    const struct vt_allocation *a = &replay->allocations[block->allocation], *b;

    if (!than)
        return true;
    b = &replay->allocations[than->allocation];
    return a->free_event != b->free_event ? a->free_event > b->free_event : a->alloc_event < b->alloc_event;
}

/* What its framework offers for its free bytes; with several frameworks, the first one's. */
static void add_remedies(const struct finding *finding, const struct vt_segment *segment)
{
    struct vt_fragmentation *found = finding->found;
    const struct vt_cache *cache =
        vt_cache_of(finding->replay->trace, finding->replay->allocations[segment->allocation].stack_id,
                    finding->found->has_pools);

    if (!cache)
        return;
    if (!vt_is_mapping(finding->replay, &finding->replay->allocations[segment->allocation]) &&
        !found->setting && cache->setting && !vt_setting_in_force(finding->replay->trace, cache->setting))
        found->setting = cache->setting;
    if (segment->bytes * 2 > finding->gpu_bytes && segment->free_bytes * 2 > segment->bytes)
        found->grows =
            cache->grows && vt_setting_in_force(finding->replay->trace, cache->grows) ? NULL : cache->grows;
    if (segment->block_count || !cache->release)
        return;
    if (!found->release)
        found->release = cache->release;
    if (!strcmp(found->release, cache->release))
        found->returnable_bytes += segment->bytes;
}

/* Blocks and holes of a segment; *next is the first block that may lie in it. */
static void fill_segment(const struct finding *finding, struct vt_segment *segment, size_t *next)
{
    struct vt_fragmentation *found = finding->found;
    uint64_t place = segment->address, end = segment->address + segment->bytes;

    segment->holes = &found->holes[found->hole_count];
    while (*next < found->block_count && found->blocks[*next].address < place)
        ++*next; /* of memory that is not known */
    segment->blocks = &found->blocks[*next];
    for (; *next < found->block_count && found->blocks[*next].address < end; ++*next) {
        const struct vt_block *block = &found->blocks[*next];
        uint64_t block_end = block->address + block->bytes < end ? block->address + block->bytes : end;

        add_hole(found, segment, place, block->address);
        place = block_end > place ? block_end : place;
        segment->block_count++;
        segment->block_bytes += block->bytes;
        if (stays_longer(finding->replay, block, segment->pin))
            segment->pin = block;
    }
    add_hole(found, segment, place, end);
    segment->pin_count = segment->pin != NULL;
    segment->free_bytes = segment->bytes - segment->block_bytes;
    found->block_bytes += segment->block_bytes;
    if (segment->block_count)
        found->kept_bytes += segment->free_bytes;
    else
        found->empty_bytes += segment->bytes;
    add_remedies(finding, segment);
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
        small = is_small(finding, segment);
        if (!found->least_request_bytes[small] || block->bytes < found->least_request_bytes[small])
            found->least_request_bytes[small] = block->bytes;
        if (block->bytes > found->largest_request_bytes[small])
            found->largest_request_bytes[small] = block->bytes;
    }
}

/* The segments, or else the blocks, that are alive: indices of allocations, by address. */
struct alive {
    uint32_t *items;
    size_t count;
};

/* The caller frees the items. */
static struct alive list_alive(const struct finding *finding, bool segments)
{
    const struct vt_replay *replay = finding->replay;
    struct alive list = {0};
    size_t capacity = 0;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        bool listed =
            segments ? allocation->kind == VT_ALLOCATION_SEGMENT : parent_of(replay, allocation) != NULL;
        if (listed && is_alive(finding, allocation))
            VT_APPEND(list.items, list.count, capacity, i);
    }
    if (list.count > 1)
        qsort_r(list.items, list.count, sizeof *list.items, by_address, (void *)replay);
    return list;
}

static void find_all(const struct finding *finding, struct alive segments, struct alive blocks)
{
    const struct vt_allocation *allocations = finding->replay->allocations;
    struct vt_fragmentation *found = finding->found;
    size_t next = 0;
    found->segments = vt_allocate_zeros(segments.count + 1, sizeof *found->segments);
    found->blocks = vt_allocate_zeros(blocks.count + 1, sizeof *found->blocks);
    found->holes = vt_allocate_zeros(segments.count + blocks.count + 1, sizeof *found->holes);
    for (size_t i = 0; i < blocks.count; i++)
        found->blocks[found->block_count++] =
            (struct vt_block){.allocation = blocks.items[i],
                              .address = allocations[blocks.items[i]].address,
                              .bytes = allocations[blocks.items[i]].bytes};
    make_segments(finding, segments.items, segments.count);
    find_requests(finding);
    for (size_t i = 0; i < found->segment_count; i++)
        fill_segment(finding, &found->segments[i], &next);
}

const char *vt_cache_release(const struct vt_replay *replay, int device_index)
{
    const bool counts = vt_counts_blocks(replay);

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *segment = &replay->allocations[i];
        const struct vt_cache *cache =
            segment->kind == VT_ALLOCATION_SEGMENT && segment->device_index == device_index
                ? vt_cache_of(replay->trace, segment->stack_id, counts)
                : NULL;

        if (cache && cache->release)
            return cache->release;
    }
    return NULL;
}

struct vt_fragmentation vt_fragmentation_find(const struct vt_replay *replay, int device_index,
                                              uint32_t event_index)
{
    const struct vt_trace_device *gpu = vt_trace_device_of(replay->trace, device_index);
    struct vt_fragmentation found = {.has_pools = vt_counts_blocks(replay)};
    struct finding finding = {replay,
                              device_index,
                              event_index,
                              &found,
                              gpu && gpu->total_bytes ? gpu->total_bytes : UINT64_MAX / 2,
                              NULL};
    find_places(&finding);
    const struct alive segments = list_alive(&finding, true), blocks = list_alive(&finding, false);
    find_all(&finding, segments, blocks);
    free(segments.items);
    free(blocks.items);
    free(finding.places);
    return found;
}

static int by_kept(const void *left, const void *right)
{
    const struct vt_pin *a = left, *b = right;

    return a->kept_bytes != b->kept_bytes ? vt_order(b->kept_bytes, a->kept_bytes) : strcmp(a->name, b->name);
}

/* The pin of that name, made if it is new. */
static struct vt_pin *pin_named(struct vt_fragmentation *found, struct vt_index *names, const char *name)
{
    uint32_t at =
        vt_index_add(names, vt_hash_bytes(name, strlen(name), VT_HASH_START), (uint32_t)found->pin_count);

    found->pin_count += at == found->pin_count;
    found->pins[at].name = name;
    return &found->pins[at];
}

static void group_pins(struct vt_fragmentation *found)
{
    struct vt_index names = {0}; /* hash of a name → pin */

    found->pins = vt_allocate_zeros(found->segment_count + 1, sizeof *found->pins);
    for (size_t i = 0; i < found->segment_count; i++) {
        const struct vt_segment *segment = &found->segments[i];
        const struct vt_block *block = segment->pin;
        struct vt_pin *pin;

        if (!block || !segment->hole_count)
            continue;
        pin = pin_named(found, &names, block->shown_place ? block->shown_place->name : "");
        pin->segments++;
        pin->bytes += block->bytes;
        pin->kept_bytes += segment->free_bytes;
        pin->categories[block->category] += block->bytes;
    }
    vt_index_free(&names);
    vt_sort(found->pins, found->pin_count, sizeof *found->pins, by_kept);
}

#define WORTH_PART 10u /* of the reserved bytes: what is less needs no advice */

static void add_advice(struct vt_fragmentation *found, const char *begin, const char *rest)
{
    found->advice[found->advice_count++] = vt_print_text("%s%s", begin, rest);
}

static void advise_on_cache(struct vt_fragmentation *found)
{
    if (found->grows)
        add_advice(found, found->grows,
                   " takes memory as it is needed, instead of most of the GPU at first.");
    else if (found->stream_kept_bytes * WORTH_PART > found->reserved_bytes)
        add_advice(
            found, found->setting ? found->setting : "Free the blocks that pin segments,",
            found->setting
                ? " lets free pieces of many segments serve one request. Or allocate what stays before "
                  "what is freed."
                : " or allocate them before what is freed.");
    if (found->returnable_bytes * WORTH_PART > found->reserved_bytes)
        add_advice(found, found->release, " after this moment returns the empty segments to the GPU.");
}

void vt_fragmentation_describe(const struct vt_report *report, struct vt_fragmentation *found)
{
    for (size_t i = 0; i < found->block_count; i++)
        vt_block_set(report, found->blocks[i].allocation, &found->blocks[i]);
    vt_streams_advise(found);
    advise_on_cache(found);
    group_pins(found);
}
