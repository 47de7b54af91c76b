/* The writer thread's parts: what it makes of the ring's records. */
#ifndef VT_WRITER_H
#define VT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "session.h"
#include "vramtrace/format.h"

/* Bytes that grow. Writer thread only. `failed` sticks: memory ran out. */
struct vt_buffer {
    uint8_t *data;
    size_t bytes, capacity;
    bool failed;
};
/* Room for `bytes` more at the end (counted in), or NULL. */
void *vt_buffer_add(struct vt_buffer *buffer, size_t bytes);
/* A definition record with `body_bytes` after the struct of `struct_bytes`: zeroed, padded to 8, head filled. */
void *vt_buffer_definition(struct vt_buffer *buffer, enum vt_record_kind kind, size_t struct_bytes,
                           size_t body_bytes);

/* definitions.c: what the writer adds of itself to the definitions of the ring: the process, names of threads, and for each
 * stack that is new the symbols and modules of its addresses and its functions' names. */
struct vt_seen; /* what was told already */
struct vt_seen *vt_seen_make(void);
void vt_define_process(const struct vt_seen *seen, struct vt_buffer *definitions);
void vt_define_thread(const struct vt_session *session, uint64_t thread_id, struct vt_buffer *definitions);
void vt_define_for_stack(struct vt_seen *seen, const struct vt_stack *stack, struct vt_buffer *definitions);

/* columns.c: events as columns (format.h). */
void vt_pack_events(const struct vt_event *const *events, size_t count, struct vt_buffer *out);

#endif
