/* The writer thread: takes committed records from the ring, adds names, and appends compressed chunks to the
 * trace. */
#ifndef VT_WRITER_H
#define VT_WRITER_H

#include "record/session.h"

/* Starts the session's writer thread. Returns 0 or -errno. */
int vt_writer_start(struct vt_session *session);

/* Tells the writer to finish, and waits for it, so many turns of 50 ms without progress. Any thread. */
void vt_writer_finish(struct vt_session *session, int turns);

#endif
