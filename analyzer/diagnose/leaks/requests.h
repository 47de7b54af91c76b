/* Requests of a server that several threads handle: whose each event is, and when each request is over. */
#ifndef VT_LEAK_REQUESTS_H
#define VT_LEAK_REQUESTS_H

#include "attribute/attribute.h"
#include "base/index.h"

/* All NULL and 0 where one thread begins all steps. */
struct vt_leak_requests {
    uint32_t *step_of; /* by event: the step that its thread is in, or the program in a thread without any */
    uint32_t *over_at; /* by step: the event with which it is over; VT_NEVER = it may still be in work */
    uint8_t *passing;  /* by allocation: freed before the request that made it was over */
    uint32_t *ends;    /* events with which a request is over, up to the last border, in order */
    uint32_t *first_steps; /* by turn: the first step of those that are over in this turn or later */
    size_t end_count;
    struct vt_index threads; /* that begin steps */
    uint32_t busy_threads;   /* of them, those that begin more than one */
};

/* `last_border`: the last event before the last step. The caller frees the result. */
struct vt_leak_requests vt_leak_requests_find(const struct vt_attribution *attribution, uint32_t last_border);
void vt_leak_requests_free(struct vt_leak_requests *requests);

/* Requests take turns in the order in which they are over, from 1: the turn at an event. */
uint32_t vt_leak_turn_at(const struct vt_leak_requests *requests, uint32_t event);
/* The turn of the request that made an allocation; VT_NEVER if it is not over at the last border. What is
 * made outside of requests has the turn at that event. */
uint32_t vt_leak_turn_made(const struct vt_leak_requests *requests, const struct vt_attribution *attribution,
                           uint32_t allocation);
/* Whether the request that made an allocation is over at an event. */
bool vt_leak_is_over(const struct vt_leak_requests *requests, const struct vt_attribution *attribution,
                     uint32_t allocation, uint32_t event);
uint32_t vt_leak_thread_of(const struct vt_trace *trace, uint32_t event);

#endif
