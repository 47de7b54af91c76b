/* The writer thread: takes committed records from the ring, adds names, and appends compressed chunks. */
#ifndef VT_WRITER_H
#define VT_WRITER_H

#include "record/session.h"

/* Starts the session's writer. Returns 0 or -errno. */
int vt_writer_start(struct vt_session *session);

/* Asks the writer to finish, and waits for it, for a bounded time. Any thread. */
void vt_writer_finish(struct vt_session *session);

#endif
