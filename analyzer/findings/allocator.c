/* The rules are those of c10/cuda/CUDACachingAllocator.cpp, without options. */
#include "findings/allocator.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"
#include "findings/fragmentation.h"
#include "format/allocator.h"
#include "trace/settings.h"
#include "report/report.h"

struct block {
    uint64_t address, bytes;
    uint32_t before, after; /* its neighbours in the segment; VT_NO_BLOCK = none */
    bool free, small;
};

/* Free blocks, smallest first. */
struct pool {
    uint32_t *items;
    size_t count, capacity;
};

struct vt_allocator {
    struct block *blocks;
    size_t count, capacity;
    uint32_t unused; /* the first unused entry, chained by `after` */
    struct pool pools[2];
    struct vt_index of_allocation;
    uint64_t free_bytes, next_address;
};

/* ---- Free blocks ---- */

static size_t place_of(const struct vt_allocator *allocator, const struct pool *pool, uint64_t bytes,
                       uint64_t address)
{
    size_t low = 0, high = pool->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct block *block = &allocator->blocks[pool->items[middle]];
        if (block->bytes < bytes || (block->bytes == bytes && block->address < address))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void put_free(struct vt_allocator *allocator, uint32_t index)
{
    struct block *block = &allocator->blocks[index];
    struct pool *pool = &allocator->pools[block->small];
    vt_reserve(&pool->items, &pool->capacity, pool->count + 1, sizeof *pool->items);
    size_t place = place_of(allocator, pool, block->bytes, block->address);
    memmove(&pool->items[place + 1], &pool->items[place], (pool->count - place) * sizeof *pool->items);
    pool->items[place] = index;
    pool->count++;
    block->free = true;
}

static void take_out(struct vt_allocator *allocator, uint32_t index)
{
    struct block *block = &allocator->blocks[index];
    struct pool *pool = &allocator->pools[block->small];
    size_t place = place_of(allocator, pool, block->bytes, block->address);
    pool->count--;
    memmove(&pool->items[place], &pool->items[place + 1], (pool->count - place) * sizeof *pool->items);
    block->free = false;
}

/* ---- Blocks ---- */

static uint32_t add_block(struct vt_allocator *allocator, struct block block)
{
    uint32_t index = allocator->unused;
    if (index == VT_NO_BLOCK) {
        index = (uint32_t)allocator->count;
        VT_APPEND(allocator->blocks, allocator->count, allocator->capacity, block);
    } else {
        allocator->unused = allocator->blocks[index].after;
        allocator->blocks[index] = block;
    }
    return index;
}

static void drop_block(struct vt_allocator *allocator, uint32_t index)
{
    allocator->blocks[index] = (struct block){.after = allocator->unused};
    allocator->unused = index;
}

/* Gives all segments without blocks back. */
static void empty_cache(struct vt_allocator *allocator)
{
    for (size_t i = 0; i < 2; i++) {
        struct pool *pool = &allocator->pools[i];
        size_t kept = 0;
        for (size_t k = 0; k < pool->count; k++) {
            const struct block *block = &allocator->blocks[pool->items[k]];
            if (block->before == VT_NO_BLOCK && block->after == VT_NO_BLOCK) {
                allocator->free_bytes += block->bytes;
                drop_block(allocator, pool->items[k]);
            } else {
                pool->items[kept++] = pool->items[k];
            }
        }
        pool->count = kept;
    }
}

static uint64_t round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

static uint64_t segment_bytes_for(uint64_t bytes)
{
    if (bytes <= VT_TORCH_SMALL_BYTES)
        return VT_TORCH_SMALL_SEGMENT_BYTES;
    return bytes < VT_TORCH_OWN_SEGMENT_BYTES ? VT_TORCH_LARGE_SEGMENT_BYTES
                                              : round_up(bytes, VT_TORCH_SEGMENT_ROUND_BYTES);
}

/* A new segment, as one block that is in no pool; VT_NO_BLOCK if the driver refuses. */
static uint32_t add_segment(struct vt_allocator *allocator, uint64_t bytes, bool small)
{
    if (allocator->free_bytes < bytes)
        empty_cache(allocator);
    if (allocator->free_bytes < bytes)
        return VT_NO_BLOCK;
    allocator->free_bytes -= bytes;
    allocator->next_address += bytes;
    return add_block(allocator, (struct block){.address = allocator->next_address - bytes,
                                               .bytes = bytes,
                                               .before = VT_NO_BLOCK,
                                               .after = VT_NO_BLOCK,
                                               .small = small});
}

static void split_block(struct vt_allocator *allocator, uint32_t index, uint64_t bytes)
{
    const struct block whole = allocator->blocks[index];
    uint64_t rest = whole.bytes - bytes;
    if (whole.small ? rest < VT_TORCH_ROUND_BYTES : rest <= VT_TORCH_SMALL_BYTES)
        return;
    uint32_t made = add_block(allocator, (struct block){.address = whole.address + bytes,
                                                        .bytes = rest,
                                                        .before = index,
                                                        .after = whole.after,
                                                        .small = whole.small});
    allocator->blocks[index].bytes = bytes;
    allocator->blocks[index].after = made;
    if (whole.after != VT_NO_BLOCK)
        allocator->blocks[whole.after].before = made;
    put_free(allocator, made);
}

uint32_t vt_allocator_take(struct vt_allocator *allocator, uint64_t bytes)
{
    bytes = bytes < VT_TORCH_ROUND_BYTES ? VT_TORCH_ROUND_BYTES : round_up(bytes, VT_TORCH_ROUND_BYTES);
    bool small = bytes <= VT_TORCH_SMALL_BYTES;
    const struct pool *pool = &allocator->pools[small];
    size_t place = place_of(allocator, pool, bytes, 0);
    uint32_t block;
    if (place < pool->count) {
        block = pool->items[place];
        take_out(allocator, block);
    } else {
        block = add_segment(allocator, segment_bytes_for(bytes), small);
    }
    if (block != VT_NO_BLOCK)
        split_block(allocator, block, bytes);
    return block;
}

/* `index` takes in the block after it. */
static void merge_next(struct vt_allocator *allocator, uint32_t index)
{
    struct block *block = &allocator->blocks[index];
    uint32_t taken = block->after;
    block->bytes += allocator->blocks[taken].bytes;
    block->after = allocator->blocks[taken].after;
    if (block->after != VT_NO_BLOCK)
        allocator->blocks[block->after].before = index;
    drop_block(allocator, taken);
}

void vt_allocator_give(struct vt_allocator *allocator, uint32_t index)
{
    uint32_t before = allocator->blocks[index].before, after = allocator->blocks[index].after;
    if (after != VT_NO_BLOCK && allocator->blocks[after].free) {
        take_out(allocator, after);
        merge_next(allocator, index);
    }
    if (before != VT_NO_BLOCK && allocator->blocks[before].free) {
        take_out(allocator, before);
        merge_next(allocator, before);
        index = before;
    }
    put_free(allocator, index);
}

uint32_t vt_allocator_find(const struct vt_allocator *allocator, uint32_t allocation)
{
    return vt_index_get(&allocator->of_allocation, allocation);
}

/* ---- The state of a trace ---- */

/* Streams other than the one with most reserved keep their free memory: requests are of that one. */
static uint32_t main_place(const struct vt_replay *replay, const struct vt_fragmentation *found)
{
    uint64_t *bytes = vt_allocate_zeros(replay->trace->place_count + 1, sizeof *bytes);
    uint32_t most = 0;
    for (size_t i = 0; i < found->segment_count; i++) {
        const uint32_t place = found->segments[i].place;
        bytes[place] += found->segments[i].bytes;
        most = bytes[place] > bytes[most] ? place : most;
    }
    free(bytes);
    return most;
}

#define KEPT_HOLE (VT_NEVER - 1) /* free for another stream */

/* A block of the trace, or a hole if it is VT_NEVER, behind the last one of the segment. */
static void append_block(struct vt_allocator *allocator, uint32_t *last, struct block block,
                         uint32_t allocation)
{
    if (block.bytes == 0)
        return;
    block.before = *last;
    block.after = VT_NO_BLOCK;
    uint32_t made = add_block(allocator, block);
    if (*last != VT_NO_BLOCK)
        allocator->blocks[*last].after = made;
    *last = made;
    if (allocation == VT_NEVER)
        put_free(allocator, made);
    else if (allocation != KEPT_HOLE)
        vt_index_put(&allocator->of_allocation, allocation, made);
}

/* serves: its holes are for the requests that follow. */
static void read_segment(struct vt_allocator *allocator, const struct vt_segment *segment, bool serves)
{
    bool small = segment->bytes <= VT_TORCH_SMALL_SEGMENT_BYTES;
    uint64_t place = segment->address, end = segment->address + segment->bytes;
    const uint32_t hole = serves ? VT_NEVER : KEPT_HOLE;
    uint32_t last = VT_NO_BLOCK;

    for (uint32_t i = 0; i < segment->block_count; i++) {
        const struct vt_block *block = &segment->blocks[i];
        if (block->address < place || block->address + block->bytes > end)
            break;
        append_block(allocator, &last,
                     (struct block){.address = place, .bytes = block->address - place, .small = small}, hole);
        append_block(allocator, &last,
                     (struct block){.address = block->address, .bytes = block->bytes, .small = small},
                     block->allocation);
        place = block->address + block->bytes;
    }
    append_block(allocator, &last, (struct block){.address = place, .bytes = end - place, .small = small},
                 hole);
    allocator->next_address = end > allocator->next_address ? end : allocator->next_address;
}

/* Whether an allocator of this kind, without options and for one stream, owns all of it. */
static bool is_modelled(const struct vt_replay *replay, const struct vt_fragmentation *found)
{
    for (size_t i = 0; i < found->segment_count; i++)
        if (vt_is_mapping(replay, &replay->allocations[found->segments[i].allocation]))
            return false;
    for (size_t i = 0; i < found->block_count; i++)
        if (replay->allocations[found->blocks[i].allocation].flags & VT_FLAG_UNCOUNTED)
            return false;
    return found->segment_count > 0 && !vt_has_allocator_settings(replay->trace);
}

struct vt_allocator *vt_allocator_make(const struct vt_replay *replay, int device_index, uint32_t event_index,
                                       uint64_t free_bytes)
{
    struct vt_fragmentation found = vt_fragmentation_find(replay, device_index, event_index);
    struct vt_allocator *allocator =
        is_modelled(replay, &found) ? vt_allocate_zeros(1, sizeof *allocator) : NULL;
    if (allocator) {
        allocator->free_bytes = free_bytes;
        allocator->unused = VT_NO_BLOCK;
        const uint32_t place = main_place(replay, &found);
        for (size_t i = 0; i < found.segment_count; i++)
            if (found.segments[i].place == place || found.segments[i].block_count)
                read_segment(allocator, &found.segments[i], found.segments[i].place == place);
            else
                allocator->free_bytes +=
                    found.segments[i].bytes; /* it is returned when the driver has no more */
    }
    vt_fragmentation_free(&found);
    return allocator;
}

void vt_allocator_free(struct vt_allocator *allocator)
{
    if (!allocator)
        return;
    for (size_t i = 0; i < 2; i++)
        free(allocator->pools[i].items);
    vt_index_free(&allocator->of_allocation);
    free(allocator->blocks);
    free(allocator);
}
