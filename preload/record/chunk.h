/* Chunks: buffers that grow, definitions compressed and events coded, both in chains. Threads: one at a time
 * for each chunk or buffer; memory comes from the kernel. */
#ifndef VT_CHUNK_H
#define VT_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vramtrace/format.h"

/* A growing buffer. `failed`: memory ran out; stays set. */
struct vt_buffer {
    uint8_t *data;
    size_t bytes, capacity;
    bool failed;
};
/* Grows the buffer by `bytes` and returns the address of the new bytes, or NULL. */
void *vt_buffer_add(struct vt_buffer *buffer, size_t bytes);
/* Appends a definition record: the struct, then `body_bytes`; zeroed, padded to 8 bytes, its head filled in.
 */
void *vt_buffer_definition(struct vt_buffer *buffer, enum vt_record_kind kind, size_t struct_bytes,
                           size_t body_bytes);

#define VT_NO_PAIR UINT32_MAX

/* A chunk being made. */
struct vt_chunk {
    struct vt_buffer definitions;
    const struct vt_event **events; /* pointers into the ring; at most VT_CHUNK_EVENTS */
    size_t event_count;
    uint32_t *pairs; /* of a chunk that was packed, by event: 1 + the place of the event that frees the block
                        it makes, or made the one it frees; 0 or VT_NO_PAIR = none in this chunk */
    struct vt_buffer stored;
    struct ZSTD_CCtx_s *compressor; /* for the chain's definitions */
    struct vt_event_codec *codec;   /* for the chain's events */
    uint64_t chain;                 /* the current chain, as in its chunks' headers */
    uint32_t place, chain_events;   /* the next chunk's place in the chain; events in the chunks before it */
    uint32_t level;                 /* 0, or that of a digest, whose definitions are not packed */
};
/* False if memory ran out. */
bool vt_chunk_start(struct vt_chunk *chunk);
/* Frees everything, also after a failed vt_chunk_start. */
void vt_chunk_stop(struct vt_chunk *chunk);
/* The next chunk begins a new chain: it goes to another file, or a chunk before it was not written. */
void vt_chunk_end_chain(struct vt_chunk *chunk);
/* Fills chunk->stored with the header and the packed contents. Each call makes the file's next chunk;
 * leaving one out breaks the chain. A first chunk begins the chain `chain`. Returns 0 or -ENOMEM. */
int vt_chunk_pack(struct vt_chunk *chunk, uint64_t ring_position, uint64_t chain);

#endif
