/* A pause: events without stacks, so that they cost next to nothing while every byte is still counted. Asked
 * for by the setting START, by the program (api.h), or from outside (control.h). Threads: any. */
#ifndef VT_PAUSE_H
#define VT_PAUSE_H

#include <stdbool.h>

#include "record/session.h"

static inline bool vt_is_paused(const struct vt_session *session)
{
    return __builtin_expect(atomic_load_explicit(&session->paused, memory_order_relaxed), 0);
}

/* Begins or ends a pause; with one that begins or has ended already nothing happens. False if its event was
 * dropped: then nothing has changed. */
bool vt_pause(struct vt_session *session, bool begin);

/* In a pause: a mark of the program ends a step, or an event comes from the backward pass of that graph
 * task. May end the pause. */
void vt_pause_note_step(struct vt_session *session);
void vt_pause_note_pass(struct vt_session *session, int graph_task);

#endif
