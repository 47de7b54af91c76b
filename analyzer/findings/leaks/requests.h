/* Requests of a server that several threads handle: whose each event is, and when each request is over. */
#ifndef VT_LEAK_REQUESTS_H
#define VT_LEAK_REQUESTS_H

#include "attribute/attribute.h"
#include "base/index.h"

/* Times of a request: events, VT_NEVER = none. */
struct vt_leak_request {
    uint32_t made;  /* the first allocation for it */
    uint32_t begun; /* with the call of a model */
    uint32_t over;  /* all that it alone needs is freed; VT_NEVER also if it may still be in work */
    uint32_t next;  /* the step that its thread begins next, 0 = none */
};

/* Whether an allocation was freed before the request that made it was over: by its thread, or by another. */
enum vt_leak_passing { VT_LEAK_NOT_PASSING, VT_LEAK_USED_UP, VT_LEAK_TAKEN };

/* All NULL and 0 where one thread begins all steps. */
struct vt_leak_requests {
    const struct vt_attribution *attribution;
    struct vt_leak_request *items; /* by step */
    uint32_t *step_of; /* by event: the step that its thread is in, or the program in a thread without any */
    uint8_t *passing;  /* by allocation: enum vt_leak_passing */
    uint32_t *ends;    /* events with which a request is over, up to the last border, in order */
    size_t end_count;
    uint32_t last_over;      /* the last step that is over at the last border */
    uint32_t at_one_time;    /* requests in work, at most */
    struct vt_index threads; /* that begin steps */
};

/* `last_border`: the last event before the last step. `code_keys`: by stack, `class_of`: by allocation; both
 * are equal for equal code. The caller frees the result. */
struct vt_leak_requests vt_leak_requests_find(const struct vt_attribution *attribution, uint32_t last_border,
                                              const uint64_t *code_keys, const uint32_t *class_of,
                                              size_t class_count);
void vt_leak_requests_free(struct vt_leak_requests *requests);

/* Requests take turns in the order in which they are over: how many are at an event. */
uint32_t vt_leak_turn_at(const struct vt_leak_requests *requests, uint32_t event);
/* The turn of the request that made an allocation, from 1; VT_NEVER if it is not over at the last border.
 * What is made outside of requests has the turn at that event. */
uint32_t vt_leak_turn_of(const struct vt_leak_requests *requests, uint32_t allocation);
/* Whether the request that made an allocation is over at an event. */
bool vt_leak_is_over(const struct vt_leak_requests *requests, uint32_t allocation, uint32_t event);
/* The event from which on a freed allocation is gone, VT_NEVER = none. */
uint32_t vt_leak_gone_at(const struct vt_leak_requests *requests, uint32_t allocation);
uint32_t vt_leak_thread_of(const struct vt_trace *trace, uint32_t event);

#endif
