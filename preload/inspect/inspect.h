/* Names by looking: at a safe point, a look at the live Python objects that hold the tensors (inspect.py).
 *
 * Asking is for any thread, in an event: a few atomic words and, if a look is due, one Py_AddPendingCall. The
 * look runs while the interpreter's main thread waits between two bytecodes, outside of any lock; what it
 * cost is bounded and told. Nothing of it can fail the host: an exception is cleared, and told in the trace.
 */
#ifndef VT_INSPECT_H
#define VT_INSPECT_H

#include "session.h"

/* Writer thread: finds the interpreter's functions once it is there. */
void vt_inspect_look_up(void);

/* A stack that is new shows a module's or optimizer's call: `self_address` of its outermost. */
void vt_inspect_note_self(struct vt_session *session, uint64_t self_address);

/* An event comes from the backward pass of this graph task (its number grows from pass to pass). */
void vt_inspect_note_backward(struct vt_session *session, int graph_task);

/* For another reason (enum vt_inspection_reason). */
void vt_inspect_ask(struct vt_session *session, unsigned reason);

#endif
