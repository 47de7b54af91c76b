/* Flight mode: the trace has a bounded size, however long the process runs. Its file has two regions, and
 * events are appended to one of them. When that is nearly full, a thread writes what matters of it to the
 * other region (flight_compaction.h) and drops the rest (gap.h); then the other region is appended to. What
 * matters: the beginning, the latest events, each device's peak, out-of-memory errors, the user's marks, and
 * samples of the whole run. The unit that is kept whole is a chain of chunks (format.h).
 *
 * Threads: the writer's. */
#ifndef VT_FLIGHT_H
#define VT_FLIGHT_H

#include "record/drain.h"

struct vt_flight;

/* NULL in other modes, or without memory. In any mode with a limit, limits the size of the file. */
struct vt_flight *vt_flight_make(struct vt_session *session);

/* The most events that a chunk should have, so that chains stay short. */
size_t vt_flight_chunk_events(const struct vt_flight *flight);

/* look: a chunk is about to be packed. note: it was appended at `offset`. */
void vt_flight_look(struct vt_flight *flight, const struct vt_chunk *chunk);
void vt_flight_note(struct vt_flight *flight, struct vt_chunk *chunk, uint64_t offset);
/* A definition came from the ring. */
void vt_flight_define(struct vt_flight *flight, const struct vt_record_head *head);

/* Called between two drains: switches to the other region if that is ready, or starts making it when it is
 * time. */
void vt_flight_tend(struct vt_flight *flight, struct vt_chunk *chunk);

/* The region is full: waits for the other one and switches to it. False if that fails. */
bool vt_flight_wait(struct vt_flight *flight, struct vt_chunk *chunk);

/* Called before the process ends. */
void vt_flight_stop(struct vt_flight *flight);

/* How many threads are running for it. */
unsigned vt_flight_threads(const struct vt_flight *flight);

#endif
