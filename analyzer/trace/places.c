#include "trace/places.h"

#include <errno.h>

#include "base/allocate.h"
#include "base/arena.h"
#include "trace/tables.h"
#include "vramtrace/places.h"

int vt_place_add(struct vt_trace *trace, const void *record)
{
    const struct vt_place_record *place = record;
    struct vt_trace_tables *tables = trace->tables;
    if (!place->place_id) {
        const char *settings = vt_arena_text(&tables->arena, place + 1, place->head.bytes - sizeof *place);
        VT_APPEND(trace->settings, trace->setting_count, tables->setting_capacity, settings);
        return 0;
    }
    if (place->device_index < 0 || place->device_index >= (int)VT_MAX_DEVICES)
        return -EBADMSG;
    struct vt_trace_place made = {.device_index = place->device_index, .stream = place->stream};
    for (size_t i = 1; i < trace->place_count && made.stream; i++)
        made.number += trace->places[i].device_index == made.device_index && trace->places[i].stream;
    made.number += made.stream != 0;
    if (!trace->place_count) /* 0 = not known */
        VT_APPEND(trace->places, trace->place_count, tables->place_capacity,
                  (struct vt_trace_place){.device_index = -1});
    vt_index_put(&tables->places, place->place_id, (uint32_t)trace->place_count);
    VT_APPEND(trace->places, trace->place_count, tables->place_capacity, made);
    return 0;
}

static bool has_streams(const struct vt_trace *trace)
{
    for (size_t i = 1; i < trace->place_count; i++)
        if (trace->places[i].stream)
            return true;
    return false;
}

void vt_places_settle(struct vt_trace *trace)
{
    if (!has_streams(trace))
        return;
    trace->event_places = vt_allocate_zeros(trace->event_count + 1, sizeof *trace->event_places);
    for (size_t i = 0; i < trace->event_count; i++) {
        const uint32_t id = trace->stacks[trace->events[i].stack_id].place_id;
        const uint32_t place = id ? vt_index_get(&trace->tables->places, id) : VT_INDEX_NONE;
        trace->event_places[i] = place < UINT16_MAX ? (uint16_t)place : 0;
    }
}
