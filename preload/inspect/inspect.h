/* Inspection: at a safe point of the host, inspect.py reads the live Python objects that hold the tensors.
 *
 * Any thread may ask for one, in an event: a few atomic words and, if one is due, one Py_AddPendingCall. It
 * runs while the interpreter's main thread waits between two bytecodes, outside of any lock; its cost is
 * bounded and recorded. Nothing in it can fail the host: an exception is cleared, and recorded in the trace.
 */
#ifndef VT_INSPECT_H
#define VT_INSPECT_H

#include "session.h"

/* Writer thread: finds the interpreter's functions once it is there. */
void vt_inspect_look_up(void);

/* A new stack shows calls of modules or optimizers; `self_address` is that of the outermost. */
void vt_inspect_note_self(struct vt_session *session, uint64_t self_address);

/* An event comes from the backward pass of this graph task (its number grows from pass to pass). */
void vt_inspect_note_backward(struct vt_session *session, int graph_task);

/* Asks for another reason (enum vt_inspection_reason). */
void vt_inspect_ask(struct vt_session *session, unsigned reason);

#endif
