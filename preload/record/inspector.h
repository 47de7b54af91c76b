/* What recording asks of inspections; inspect/inspect.c is one. Recording knows no more of them than this. */
#ifndef VT_INSPECTOR_H
#define VT_INSPECTOR_H

#include <stdint.h>

struct vt_session;

struct vt_inspector {
    /* Writer thread: finds the interpreter's functions once it is there. */
    void (*look_up)(void);
    /* Writer thread, many times a second. */
    void (*tend)(struct vt_session *session);
    /* A new stack shows calls of modules or optimizers; `self_address` is that of the outermost. */
    void (*note_self)(struct vt_session *session, uint64_t self_address);
    /* An event comes from the backward pass of this graph task (its number grows from pass to pass). */
    void (*note_backward)(struct vt_session *session, int graph_task);
    /* More is alive than ever before, by an allocation on this stack. */
    void (*note_peak)(struct vt_session *session, uint32_t stack_id);
    /* Asks for another reason (enum vt_inspection_reason). */
    void (*ask)(struct vt_session *session, unsigned reason);
};

#endif
