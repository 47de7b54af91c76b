/* Flight mode: the trace takes a bounded part of the disk however long the process runs. Its file has two
 * regions; one is recorded to as always. When that is full enough, what matters least in it is left out
 * (gap.h), and the rest goes to the other region (compact.h), on a thread of its own; then that one is
 * recorded to. What matters: the beginning, the latest, where each device's peak was, refusals, the user's
 * marks, and samples of all the run. What is kept whole is a chain of chunks (format.h).
 *
 * Threads: the writer's. */
#ifndef VT_FLIGHT_H
#define VT_FLIGHT_H

#include "record/drain.h"

struct vt_flight;

/* NULL in other modes, and without memory. Bounds the file in any mode that has a limit. */
struct vt_flight *vt_flight_make(struct vt_session *session);

/* What a chunk should have at most, so that chains are short enough. */
size_t vt_flight_chunk_events(const struct vt_flight *flight);

/* What is about to be packed, and what was appended. */
void vt_flight_look(struct vt_flight *flight, const struct vt_chunk *chunk);
void vt_flight_note(struct vt_flight *flight, struct vt_chunk *chunk, uint64_t offset);
/* A definition that came from the ring. */
void vt_flight_define(struct vt_flight *flight, const struct vt_record_head *head);

/* Between two drains: goes over to the other region if it is ready, and has it made if that is due. */
void vt_flight_tend(struct vt_flight *flight, struct vt_chunk *chunk);

/* The region is full: waits for the other one. False if there will be none. */
bool vt_flight_wait(struct vt_flight *flight, struct vt_chunk *chunk);

/* Before the process ends. */
void vt_flight_stop(struct vt_flight *flight);

/* How many threads it has now. */
unsigned vt_flight_threads(const struct vt_flight *flight);

#endif
