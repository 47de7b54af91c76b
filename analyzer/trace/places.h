/* On which stream each block was made. The recorder gives a stack one place, so one stack per stream. Here
 * places are the events', and stacks that differ in nothing else are one. */
#ifndef VT_TRACE_PLACES_H
#define VT_TRACE_PLACES_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/trace.h"

/* Takes a VT_RECORD_PLACE. Returns 0 or -EBADMSG. */
int vt_place_add(struct vt_trace *trace, const void *record);
/* Sets vt_trace.event_places, if there is more than one stream. Once stack ids are safe. */
void vt_places_settle(struct vt_trace *trace);

/* The place of a framework's block, or failed request, by the event that made it: an index into
 * vt_trace.places; 0 = not known, or there was only one stream. */
static inline uint32_t vt_trace_place(const struct vt_trace *trace, uint32_t event_index)
{
    return trace->event_places && event_index < trace->event_count ? trace->event_places[event_index] : 0;
}

#endif
