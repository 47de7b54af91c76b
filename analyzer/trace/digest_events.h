/* Collects a trace's events, those of digests among them: takes out what marks digests, and keeps where they
 * are. */
#ifndef VT_DIGEST_EVENTS_H
#define VT_DIGEST_EVENTS_H

#include "trace/trace.h"

/* Where events are missing: those kept, [first, end), are of digests. */
struct vt_gap {
    uint32_t first, end;
    uint64_t omitted_events;
};

/* Whether an event lies outside of digests: then everything alive after it is known. Ask in the order of
 * events, with *next 0 at first. */
static inline bool vt_is_in_window(const struct vt_gap *gaps, size_t gap_count, uint32_t event, size_t *next)
{
    while (*next < gap_count && gaps[*next].end <= event)
        ++*next;
    return *next == gap_count || event < gaps[*next].first;
}

/* How many calls of a model the event begins, where its code is known to begin one. In a digest landmarks
 * count them, that of a block which stays among them. */
static inline uint32_t vt_calls_begun(const struct vt_event *event)
{
    if (event->kind != VT_EVENT_CALL)
        return !event->head_start;
    return event->bytes < UINT32_MAX ? (uint32_t)event->bytes : UINT32_MAX;
}

/* `head_start` of a digest's events here: of the first, whether its chains are in the file or the recorder
 * left them out; of the later ones. */
enum { VT_DIGEST_KEPT = 1, VT_DIGEST_ALONE, VT_DIGEST_LATER };

struct vt_digest_reader {
    struct vt_trace *trace;
    size_t capacity, number_capacity, gap_capacity;
    uint64_t number; /* of the next event */
    uint64_t begun;  /* number of the first of the current digest */
    uint64_t shown;  /* of its events: in the result, landmarks apart */
    bool in_digest;
    bool kept;      /* its chains are in the file */
    uint64_t calls; /* of it so far */
    size_t call;    /* 1 + the last VT_EVENT_CALL of it; 0 = none */
};
/* Takes from the digest of a chain that is read whole only where nodes were made. */
void vt_digest_nodes_take(struct vt_trace *trace, const struct vt_event *events, size_t count);
/* Adds events to the trace's. Returns 0, or -E2BIG if they are more than 2^32 - 2. */
int vt_digest_events_take(struct vt_digest_reader *reader, const struct vt_event *events, size_t count);

#endif
