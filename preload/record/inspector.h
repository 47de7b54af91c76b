/* How recording requests inspections. inspect/inspect.c implements it; recording knows no more about
 * inspections. */
#ifndef VT_INSPECTOR_H
#define VT_INSPECTOR_H

#include <stdint.h>

struct vt_session;

struct vt_inspector {
    /* Writer thread: looks for the interpreter's functions, once it is loaded. */
    void (*look_up)(void);
    /* Writer thread, about ten times a second. */
    void (*tend)(struct vt_session *session);
    /* A new stack contains calls of modules or optimizers; `self_address` is the outermost one's. */
    void (*note_self)(struct vt_session *session, uint64_t self_address);
    /* The calling thread has made nodes of autograd's graphs. */
    void (*note_graph)(void);
    /* An event belongs to the backward pass of this graph task. Task numbers grow from pass to pass. */
    void (*note_backward)(struct vt_session *session, int graph_task);
    /* An allocation on this stack made a new peak. */
    void (*note_peak)(struct vt_session *session, uint32_t stack_id);
    /* Requests an inspection for another reason (enum vt_inspection_reason). */
    void (*ask)(struct vt_session *session, unsigned reason);
};

#endif
