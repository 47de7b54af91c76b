#include "record/pause.h"

#include "record/record.h"

bool vt_pause(struct vt_session *session, bool begin)
{
    bool before = !begin;
    if (!atomic_compare_exchange_strong(&session->paused, &before, begin))
        return true;
    if (!vt_record_pause(session, begin)) {
        atomic_store(&session->paused, !begin);
        return false;
    }
    __atomic_store_n(&session->ring.header->control.paused, begin, __ATOMIC_RELAXED);
    /* What was made meanwhile has no stack: an inspection gives it a name. */
    if (!begin)
        vt_inspector.ask(session, VT_INSPECTION_NEW_OBJECT);
    return true;
}

void vt_pause_note_step(struct vt_session *session)
{
    if (atomic_fetch_add(&session->step_marks, 1) + 2 == session->options.start_step)
        vt_pause(session, false);
}

/* The pass before the first step wanted begins its recording, so that the step is whole. Marks count steps
 * better. */
void vt_pause_note_pass(struct vt_session *session, int graph_task)
{
    if (vt_raise_above(&session->next_graph_task, graph_task) &&
        atomic_fetch_add(&session->passes, 1) + 2 == session->options.start_step &&
        !atomic_load(&session->step_marks))
        vt_pause(session, false);
}
