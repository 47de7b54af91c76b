#include "trace/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>

#include "format/checksum.h"
#include "format/events.h"

struct vt_chain {
    ZSTD_DCtx *unpacker;
    uint64_t id;
    uint32_t next_place; /* 0: only a chunk that begins a chain can be read */
    bool has_events;
    struct vt_event_codec codec;
};

struct vt_chain *vt_chain_make(void)
{
    struct vt_chain *chain = calloc(1, sizeof *chain);
    if (!chain)
        return NULL;
    chain->unpacker = ZSTD_createDCtx();
    if (chain->unpacker &&
        !ZSTD_isError(ZSTD_DCtx_setParameter(chain->unpacker, ZSTD_d_windowLogMax, VT_DEFINITIONS_WINDOW)))
        return chain;
    vt_chain_free(chain);
    return NULL;
}

void vt_chain_free(struct vt_chain *chain)
{
    if (chain)
        ZSTD_freeDCtx(chain->unpacker);
    free(chain);
}

bool vt_chain_is_plausible(const struct vt_chained_chunk_header *head)
{
    const struct vt_chunk_header *chunk = &head->chunk;
    return chunk->magic == VT_CHAINED_MAGIC && chunk->header_bytes >= sizeof *head &&
           chunk->payload_bytes <= chunk->stored_bytes && chunk->events <= VT_CHUNK_EVENTS &&
           chunk->events <= (uint64_t)VT_EVENTS_PER_BYTE * (chunk->stored_bytes - chunk->payload_bytes);
}

bool vt_chain_is_whole(const struct vt_chained_chunk_header *head, const uint8_t *stored)
{
    return vt_chained_checksum(head, stored) == head->chunk.checksum;
}

static bool unpack(struct vt_chain *chain, const uint8_t *stored, size_t stored_bytes, uint8_t *out,
                   size_t bytes)
{
    ZSTD_inBuffer from = {stored, stored_bytes, 0};
    ZSTD_outBuffer to = {out, bytes, 0};
    while (from.pos < from.size) {
        const size_t before = from.pos + to.pos;
        if (ZSTD_isError(ZSTD_decompressStream(chain->unpacker, &to, &from)) || from.pos + to.pos == before)
            return false;
    }
    return to.pos == bytes;
}

int vt_chain_read(struct vt_chain *chain, const struct vt_chained_chunk_header *head, const uint8_t *stored,
                  uint8_t *definitions, struct vt_event *events)
{
    const struct vt_chunk_header *chunk = &head->chunk;
    if (head->place == 0) {
        chain->id = head->chain;
        chain->has_events = false;
        ZSTD_DCtx_reset(chain->unpacker, ZSTD_reset_session_only);
        vt_events_begin_chain(&chain->codec);
    } else if (head->place != chain->next_place || head->chain != chain->id) {
        chain->next_place = 0;
        return -EBADMSG;
    }
    chain->next_place = 0;
    if (!unpack(chain, stored, chunk->payload_bytes, definitions, chunk->definitions_bytes))
        return -EBADMSG;
    if (chunk->events)
        vt_events_read_chunk(&chain->codec, stored + chunk->payload_bytes, stored + chunk->stored_bytes,
                             !chain->has_events, events, chunk->events);
    chain->has_events |= chunk->events > 0;
    chain->next_place = head->place + 1;
    return 0;
}
