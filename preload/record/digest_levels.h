/* The digests of a trace: of each chain as it ends, and of digests in a row (format.h). Threads: the
 * writer's. Memory: from the kernel; if there is none, chains get no digests any more. */
#ifndef VT_DIGEST_LEVELS_H
#define VT_DIGEST_LEVELS_H

#include "record/chunk.h"
#include "record/digest.h"

struct vt_digest_levels {
    struct vt_digest_level {
        struct vt_digest digest;
        uint64_t chain;         /* the first that it is of */
        uint64_t first_event;   /* how many there were before */
        uint32_t chains, parts; /* that it is of; digests of the level below */
    } levels[VT_DIGEST_LEVELS]; /* [0]: the current chain's */
    struct vt_chunk chunk;
    unsigned level_count; /* in use */
    struct vt_models models;
    bool failed;
};

/* Learns from a definition on its way to the trace. */
void vt_digest_levels_define(struct vt_digest_levels *levels, const struct vt_record_head *head);
/* Takes the events of a chunk that was written. `first_event`: how many there were before. */
void vt_digest_levels_take(struct vt_digest_levels *levels, const struct vt_chunk *chunk,
                           uint64_t first_event);
/* The chain has ended: passes chunks with its digest, and with those that it completes, to `append`, whose
 * error it returns. Call it before the chain is gone from the file. */
typedef int vt_append_digest(void *context, const struct vt_digest_level *level, const struct vt_chunk *chunk,
                             uint64_t ring_position);
int vt_digest_levels_end_chain(struct vt_digest_levels *levels, uint64_t ring_position,
                               vt_append_digest *append, void *context);
void vt_digest_levels_free(struct vt_digest_levels *levels);

/* Packs the level's digest, which has ended, as a chain of its own: calls `append` for each chunk. -ENOMEM,
 * or what `append` returns. */
int vt_digest_pack(const struct vt_digest_level *level, unsigned number, struct vt_chunk *chunk,
                   uint64_t ring_position, vt_append_digest *append, void *context);

#endif
