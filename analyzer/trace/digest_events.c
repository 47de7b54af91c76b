#include "trace/digest_events.h"

#include <errno.h>

#include "base/allocate.h"
#include "base/index.h"
#include "format/past.h"

/* A digest begins: right after another one, in the same gap. */
static void begin_digest(struct vt_digest_reader *reader, const struct vt_event *begin)
{
    struct vt_trace *trace = reader->trace;
    const uint32_t at = (uint32_t)trace->event_count;
    reader->in_digest = true;
    reader->kept = begin->head_start != VT_DIGEST_ALONE;
    reader->begun = reader->number;
    reader->shown = reader->calls = reader->call = 0;
    if (!trace->gap_count || trace->gaps[trace->gap_count - 1].end != at)
        VT_APPEND(trace->gaps, trace->gap_count, reader->gap_capacity,
                  ((struct vt_gap){.first = at, .end = at}));
}

static void end_digest(struct vt_digest_reader *reader, const struct vt_event *end)
{
    struct vt_trace *trace = reader->trace;
    reader->in_digest = false;
    reader->number = reader->begun + reader->shown + end->detail;
    if (reader->call &&
        end->address - reader->calls <= reader->shown + end->detail) /* those that are not shown */
        trace->events[reader->call - 1].bytes += end->address - reader->calls;
    struct vt_gap *gap = &trace->gaps[trace->gap_count - 1];
    for (size_t i = trace->event_count; i > gap->first && trace->event_numbers[i - 1] > reader->number; i--)
        trace->event_numbers[i - 1] = reader->number;
    gap->omitted_events += end->detail;
    trace->omitted_events += end->detail;
    trace->unkept_events += reader->kept ? 0 : end->detail;
    trace->unseen_passes += end->sequence;
}

static int keep_event(struct vt_digest_reader *reader, const struct vt_event *event)
{
    struct vt_trace *trace = reader->trace;
    if (trace->event_count >= UINT32_MAX - 1)
        return -E2BIG;
    vt_reserve(&trace->event_numbers, &reader->number_capacity, trace->event_count + 1,
               sizeof *trace->event_numbers);
    VT_APPEND(trace->events, trace->event_count, reader->capacity, *event);
    struct vt_event *kept = &trace->events[trace->event_count - 1];
    kept->head_start = reader->in_digest;
    if (reader->in_digest)
        trace->gaps[trace->gap_count - 1].end = (uint32_t)trace->event_count;
    if (reader->in_digest && event->kind == VT_EVENT_MARK) { /* its place among all events of the digest */
        if (event->total_bytes > reader->number - reader->begun)
            reader->number = reader->begun + event->total_bytes;
        kept->total_bytes = 0;
    }
    trace->event_numbers[trace->event_count - 1] = reader->number;
    return 0;
}

/* From now on `bytes` of the latest event is how many calls began since the call before it, itself included.
 */
static void count_calls(struct vt_digest_reader *reader)
{
    struct vt_event *event = &reader->trace->events[reader->trace->event_count - 1];
    const uint64_t number = event->bytes;
    event->bytes = number > reader->calls ? number - reader->calls : 1;
    reader->calls = number;
    reader->call = reader->trace->event_count;
}

int vt_digest_events_take(struct vt_digest_reader *reader, const struct vt_event *events, size_t count)
{
    static const struct vt_event missing_end;
    int error = 0;
    for (size_t i = 0; i < count && !error; i++) {
        const struct vt_event *event = &events[i];
        if (reader->in_digest && event->head_start != VT_DIGEST_LATER)
            end_digest(reader, &missing_end);
        if (event->kind == VT_EVENT_GAP_BEGIN && event->head_start && event->head_start != VT_DIGEST_LATER) {
            begin_digest(reader, event);
        } else if (event->kind == VT_EVENT_GAP_END && reader->in_digest) {
            end_digest(reader, event);
        } else if (reader->in_digest || !event->head_start) {
            error = keep_event(reader, event);
            reader->shown += reader->in_digest && !vt_is_landmark(event);
            reader->number += !reader->in_digest || !vt_is_landmark(event);
            if (event->kind == VT_EVENT_CALL && reader->in_digest && !error)
                count_calls(reader);
            if (event->kind == VT_EVENT_RAN && reader->in_digest)
                reader->trace->unseen_passes -= event->sequence % 2;
        }
    }
    return error;
}

void vt_digest_nodes_take(struct vt_trace *trace, const struct vt_event *events, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (events[i].kind == VT_EVENT_ALLOC && events[i].layer == VT_LAYER_FRAMEWORK &&
            events[i].sequence % 2 && events[i].total_bytes && events[i].total_bytes <= UINT32_MAX)
            vt_index_put(&trace->node_stacks, events[i].sequence, (uint32_t)events[i].total_bytes);
}
