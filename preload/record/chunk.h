/* Chunks: buffers that grow, definitions compressed and events coded, both in chains. Threads: one at a time
 * for each chunk or buffer; memory comes from the kernel. */
#ifndef VT_CHUNK_H
#define VT_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/format.h"

/* Bytes that grow. `failed`: memory ran out; it stays set. */
struct vt_buffer {
    uint8_t *data;
    size_t bytes, capacity;
    bool failed;
};
/* Grows the buffer by `bytes` and returns their address, or NULL. */
void *vt_buffer_add(struct vt_buffer *buffer, size_t bytes);
/* A definition record with `body_bytes` after the struct of `struct_bytes`: zeroed, padded to 8, head filled.
 */
void *vt_buffer_definition(struct vt_buffer *buffer, enum vt_record_kind kind, size_t struct_bytes,
                           size_t body_bytes);

/* A chunk in the making. */
struct vt_chunk {
    struct vt_buffer definitions;
    const struct vt_event **events; /* into the ring; VT_CHUNK_EVENTS at most */
    size_t event_count;
    struct vt_buffer stored;
    struct ZSTD_CCtx_s *compressor; /* of the chain's definitions */
    struct vt_event_codec *codec;   /* of the chain's events */
    uint64_t chain;                 /* of the present chain, as in its chunks */
    uint32_t place, chain_events;   /* of the next chunk; of those before it */
};
/* False without memory. */
bool vt_chunk_start(struct vt_chunk *chunk);
/* Frees what start made, all or a part, and its buffers. */
void vt_chunk_stop(struct vt_chunk *chunk);
/* The next chunk begins a chain: it goes to another file, or one before it did not get there. */
void vt_chunk_end_chain(struct vt_chunk *chunk);
/* Fills chunk->stored: header and packed content. Each call makes the next chunk of the file: one that is
 * left out breaks the chain. Returns 0 or -ENOMEM. */
int vt_chunk_pack(struct vt_chunk *chunk, uint64_t ring_position);

#endif
