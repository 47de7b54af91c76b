/* Which lines of a leak to look at. The likeliest is where the block was made that keeps the others alive.
 * The second is the one that says more than the callers of the first: where the holder's tensor was made,
 * or most of what is kept. */
#include "findings/leaks/lines.h"

#include "base/allocate.h"
#include "base/hash.h"
#include "findings/leaks/finder.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const struct vt_place *a, const struct vt_place *b)
{
    return a->frame.line == b->frame.line && strcmp(a->frame.file, b->frame.file) == 0;
}

void vt_leak_add_lines(const struct vt_leak_finder *finder, struct vt_leak *leak, uint32_t stack_id,
                       size_t limit)
{
    const struct vt_trace *trace = finder->trace;
    struct vt_frame frames[128];
    if (leak->line_count == VT_LEAK_LINES)
        return;
    size_t count = vt_trace_frames(trace, stack_id, frames, 128);
    size_t native = trace->stacks[stack_id].native_count;
    for (size_t i = native; i < count && i < 128 && leak->line_count < VT_LEAK_LINES && limit > 0; i++) {
        bool library = vt_trace_code_is_library(trace, trace->stacks[stack_id].python[i - native].code_id);
        bool known = library;
        for (size_t k = 0; k < leak->line_count && !known; k++)
            known = is_same(&leak->lines[k], &(struct vt_place){.frame = frames[i]});
        if (!known)
            vt_place_set(finder->places, &frames[i], &leak->lines[leak->line_count++]);
        limit -= !library;
    }
    const struct vt_place *place = leak->line_count == 0 ? vt_place_of(finder->places, stack_id) : NULL;
    if (place)
        leak->lines[leak->line_count++] = *place;
}

static void put_second(struct vt_leak *leak, const struct vt_place *place)
{
    size_t at = 1;
    while (at < leak->line_count && !is_same(&leak->lines[at], place))
        at++;
    if (at == leak->line_count && leak->line_count < VT_LEAK_LINES)
        leak->line_count++;
    else if (at == leak->line_count)
        at--;
    memmove(&leak->lines[2], &leak->lines[1], (at - 1) * sizeof *leak->lines);
    leak->lines[1] = *place;
}

/* The line that made most of what each step keeps; NULL = none is known. */
static const struct vt_place *largest_line(const struct vt_leak *leak)
{
    struct vt_index sums = {0}; /* by line: the first part of it, to which the others are added */
    uint64_t most = 0, *bytes = vt_allocate_zeros(leak->part_count + 1, sizeof *bytes);
    const struct vt_place *largest = NULL;
    for (uint32_t i = 0; i < leak->part_count; i++) {
        const struct vt_place *place = leak->parts[i].place;
        if (!place)
            continue;
        uint64_t key =
            vt_hash_bytes(place->frame.file, strlen(place->frame.file), (uint64_t)place->frame.line);
        uint32_t first = vt_index_get(&sums, key);
        if (first == VT_INDEX_NONE)
            vt_index_put(&sums, key, first = i);
        bytes[first] += leak->parts[i].bytes_per_step;
        if (bytes[first] > most) {
            most = bytes[first];
            largest = leak->parts[first].place;
        }
    }
    vt_index_free(&sums);
    free(bytes);
    return largest;
}

void vt_leak_lines_find(struct vt_leak_finder *finder)
{
    for (size_t i = 0; i < finder->leaks->count; i++) {
        struct vt_leak *leak = &finder->leaks->items[i];
        const struct vt_place *held =
            leak->holder.stack_id ? vt_place_of(finder->places, leak->holder.stack_id) : NULL;
        const struct vt_place *place =
            held && leak->line_count && !is_same(held, leak->lines) ? held : largest_line(leak);
        if (place && leak->line_count && !is_same(place, leak->lines))
            put_second(leak, place);
    }
}
