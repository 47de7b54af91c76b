#include "record/digest_levels.h"

#include <errno.h>
#include <string.h>

#include "format/events.h"
#include "hash.h"
#include "memory.h"

enum { LANDMARKS = 512 };

/* ---- which model a stack is in ---- */

void vt_digest_levels_define(struct vt_digest_levels *levels, const struct vt_record_head *head)
{
    if (head->kind != VT_RECORD_STACK || levels->failed)
        return;
    const struct vt_stack *stack = (const void *)head;
    const struct vt_python_frame *frames =
        (const void *)((const char *)(stack + 1) + stack->native_frames * sizeof(uint64_t));
    uint64_t model = 0;
    for (unsigned i = 0; i < stack->python_frames; i++)
        model = frames[i].self_address ? frames[i].self_address : model;
    if (stack->stack_id >= levels->models.count) {
        enum { FIRST = 1024 };
        size_t capacity = levels->models.count ? levels->models.count : FIRST;
        while (capacity <= stack->stack_id)
            capacity *= 2;
        uint32_t *models = vt_memory_grow(levels->models.by_stack, levels->models.count * sizeof *models,
                                          capacity * sizeof *models);
        levels->failed |= !models;
        if (!models)
            return;
        levels->models.by_stack = models;
        levels->models.count = capacity;
    }
    levels->models.by_stack[stack->stack_id] = model ? (uint32_t)(vt_hash(model) >> 32) | 1 : 0;
}

/* ---- events ---- */

static void begin(struct vt_digest_level *level, uint64_t chain, uint64_t first_event)
{
    vt_digest_begin(&level->digest, LANDMARKS, false);
    level->chain = chain;
    level->first_event = first_event;
    level->chains = level->parts = 0;
}

void vt_digest_levels_take(struct vt_digest_levels *levels, const struct vt_chunk *chunk,
                           uint64_t first_event)
{
    struct vt_digest_level *level = &levels->levels[0];
    if (levels->failed || !chunk->event_count)
        return;
    if (!level->chains) {
        if (!level->digest.nodes) /* without, places of gradients that stay are not known */
            level->digest.nodes = vt_memory_make(VT_DIGEST_NODES * sizeof *level->digest.nodes);
        begin(level, chunk->chain, first_event);
        level->chains = 1;
    }
    levels->failed |=
        !vt_digest_take_all(&level->digest, chunk->events, chunk->event_count, chunk->pairs, &levels->models);
}

/* ---- files ---- */

/* Writes what the level is of before the digest's events. */
static bool put_summary(const struct vt_digest_level *level, struct vt_buffer *buffer)
{
    const struct vt_digest *digest = &level->digest;
    struct vt_digest_summary summary = {.first_event = level->first_event,
                                        .events = digest->event_count,
                                        .begin_ns = digest->first_ns,
                                        .end_ns = digest->last_ns,
                                        .chains = level->chains};
    struct vt_digest_device devices[VT_MAX_DEVICES];
    struct vt_digest_kind kinds[VT_DIGEST_KINDS * VT_DIGEST_LAYERS];
    for (uint32_t i = 0; i < VT_MAX_DEVICES; i++)
        if (digest->block_peaks[i].bytes || digest->driver_peaks[i].bytes)
            devices[summary.device_count++] = (struct vt_digest_device){
                .device_index = i, .blocks = digest->block_peaks[i], .driver = digest->driver_peaks[i]};
    for (unsigned kind = 0; kind < VT_DIGEST_KINDS; kind++)
        for (unsigned layer = 0; layer < VT_DIGEST_LAYERS; layer++)
            if (digest->kinds[kind][layer])
                kinds[summary.kind_count++] =
                    (struct vt_digest_kind){(uint8_t)kind, (uint8_t)layer, {0}, digest->kinds[kind][layer]};
    const size_t device_bytes = summary.device_count * sizeof *devices,
                 kind_bytes = summary.kind_count * sizeof *kinds;
    buffer->bytes = 0;
    uint8_t *out = vt_buffer_add(buffer, sizeof summary + device_bytes + kind_bytes);
    if (!out)
        return false;
    memcpy(out, &summary, sizeof summary);
    memcpy(out + sizeof summary, devices, device_bytes);
    memcpy(out + sizeof summary + device_bytes, kinds, kind_bytes);
    return true;
}

int vt_digest_pack(const struct vt_digest_level *level, unsigned number, struct vt_chunk *chunk,
                   uint64_t ring_position, vt_append_digest *append, void *context)
{
    if (!put_summary(level, &chunk->definitions))
        return -ENOMEM;
    chunk->level = number;
    vt_chunk_end_chain(chunk);
    for (size_t done = 0; done < level->digest.count; done += chunk->event_count) {
        const size_t left = level->digest.count - done;
        chunk->event_count = left < VT_CHUNK_EVENTS ? left : VT_CHUNK_EVENTS;
        for (size_t i = 0; i < chunk->event_count; i++)
            chunk->events[i] = &level->digest.events[done + i];
        int error = vt_chunk_pack(chunk, ring_position, level->chain);
        if (!error)
            error = append(context, level, chunk, ring_position);
        if (error)
            return error;
    }
    return 0;
}

/* Ends the level's run; then the next level has one part more. */
static int end_level(struct vt_digest_levels *levels, unsigned at, uint64_t ring_position,
                     vt_append_digest *append, void *context)
{
    struct vt_digest_level *level = &levels->levels[at],
                           *next = at + 1 < levels->level_count ? level + 1 : NULL;
    struct vt_chunk *chunk = &levels->chunk;
    if ((!chunk->events && !vt_chunk_start(chunk)) || !vt_digest_end(&level->digest))
        return -ENOMEM;
    int error = vt_digest_pack(level, at + 1, chunk, ring_position, append, context);
    if (error)
        return error;
    if (next && !next->chains)
        begin(next, level->chain, level->first_event);
    if (next) {
        next->chains += level->chains;
        next->parts++;
        if (!vt_digest_add(&next->digest, level->digest.events, level->digest.count,
                           (const void *)chunk->definitions.data))
            return -ENOMEM;
    }
    level->chains = level->parts = 0;
    return next && next->parts == VT_DIGESTS_IN_ONE
               ? end_level(levels, at + 1, ring_position, append, context)
               : 0;
}

int vt_digest_levels_end_chain(struct vt_digest_levels *levels, uint64_t ring_position,
                               vt_append_digest *append, void *context)
{
    if (levels->failed || !levels->levels[0].chains)
        return 0;
    const int error = end_level(levels, 0, ring_position, append, context);
    levels->failed |= error != 0;
    return error == -ENOMEM ? 0 : error;
}

void vt_digest_levels_free(struct vt_digest_levels *levels)
{
    for (size_t i = 0; i < VT_DIGEST_LEVELS; i++)
        vt_digest_free(&levels->levels[i].digest);
    vt_chunk_stop(&levels->chunk);
    vt_memory_free(levels->models.by_stack, levels->models.count * sizeof *levels->models.by_stack);
}
