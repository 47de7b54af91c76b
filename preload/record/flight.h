/* Flight mode: the trace has a bounded size, however long the process runs. Its file has two regions, and
 * events are appended to one of them. When that is nearly full, a thread writes what matters of it to the
 * other region (flight_compaction.h) and drops the rest but for their digests; then the other region is
 * appended to. What matters: the beginning, the latest events, each device's peak, out-of-memory errors, the
 * user's marks, and samples of the whole run. The unit that is kept whole is a chain of chunks (format.h).
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

/* A chunk was appended at `offset`: of the current chain, or of the digest of the one before. True if the
 * chain should end with it. */
bool vt_flight_note(struct vt_flight *flight, const struct vt_chunk *chunk, uint64_t offset);
/* The chain has ended, and this is its digest. */
void vt_flight_note_digest(struct vt_flight *flight, const struct vt_digest *digest);
/* A definition came from the ring. */
void vt_flight_define(struct vt_flight *flight, const struct vt_record_head *head);

/* Called between two drains, after a chain has ended if vt_flight_is_due: switches to the other region if
 * that is ready, or starts making it when it is time. */
bool vt_flight_is_due(const struct vt_flight *flight);
void vt_flight_tend(struct vt_flight *flight);

/* The region is full: waits for the other one and switches to it. Then the chain must end. False if that
 * fails. */
bool vt_flight_wait(struct vt_flight *flight);

/* Called before the process ends. */
void vt_flight_stop(struct vt_flight *flight);

/* How many threads are running for it. */
unsigned vt_flight_threads(const struct vt_flight *flight);

#endif
