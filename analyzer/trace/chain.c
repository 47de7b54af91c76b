#include "trace/chain.h"

#include <errno.h>
#include <stdlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "base/allocate.h"
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
    struct vt_chain *chain = vt_allocate_zeros(1, sizeof *chain);
    chain->unpacker = ZSTD_createDCtx();
    if (!chain->unpacker)
        vt_end_out_of_memory();
    ZSTD_DCtx_setParameter(chain->unpacker, ZSTD_d_windowLogMax, VT_DEFINITIONS_WINDOW);
    return chain;
}

void vt_chain_free(struct vt_chain *chain)
{
    if (chain)
        ZSTD_freeDCtx(chain->unpacker);
    free(chain);
}

bool vt_chain_is_plausible(const struct vt_chunk_header *head)
{
    return head->magic == VT_CHUNK_MAGIC && head->header_bytes >= sizeof *head &&
           head->header_bytes <= VT_HEADER_BYTES && head->stored_bytes <= VT_CHUNK_BYTES_LIMIT &&
           head->definitions_bytes <= VT_CHUNK_BYTES_LIMIT &&
           head->packed_definitions_bytes <= head->stored_bytes && head->events <= VT_CHUNK_EVENTS &&
           head->events <=
               (uint64_t)VT_EVENTS_PER_BYTE * (head->stored_bytes - head->packed_definitions_bytes);
}

bool vt_chain_is_whole(const struct vt_chunk_header *head, const uint8_t *stored)
{
    return vt_chunk_checksum(head, stored) == head->checksum;
}

static bool unpack(struct vt_chain *chain, const uint8_t *stored, size_t stored_bytes, uint8_t *out,
                   size_t bytes)
{
    ZSTD_inBuffer from = {stored, stored_bytes, 0};
    ZSTD_outBuffer to = {out, bytes, 0};
    while (from.pos < from.size) {
        const size_t before = from.pos + to.pos;
        const size_t result = ZSTD_decompressStream(chain->unpacker, &to, &from);
        if (ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation)
            vt_end_out_of_memory();
        if (ZSTD_isError(result) || from.pos + to.pos == before)
            return false;
    }
    return to.pos == bytes;
}

int vt_chain_read(struct vt_chain *chain, const struct vt_chunk_header *head, const uint8_t *stored,
                  uint8_t *definitions, struct vt_event *events)
{
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
    if (!head->level &&
        !unpack(chain, stored, head->packed_definitions_bytes, definitions, head->definitions_bytes))
        return -EBADMSG;
    if (head->events && events)
        vt_events_read_chunk(&chain->codec, stored + head->packed_definitions_bytes,
                             stored + head->stored_bytes, !chain->has_events, events, head->events);
    chain->has_events |= head->events > 0;
    chain->next_place = head->place + 1;
    return 0;
}
