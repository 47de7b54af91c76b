/* The digests of a trace: of each chain as it ends, and of digests in a row (format.h). Threads: the
 * writer's. Memory: from the kernel; if there is none, chains get no digests any more. */
#ifndef VT_DIGEST_LEVELS_H
#define VT_DIGEST_LEVELS_H

#include "record/chunk.h"
#include "record/digest.h"
#include "record/trace_file.h"

struct vt_digest_levels {
    struct vt_digest_level {
        struct vt_digest digest;
        uint64_t chain;         /* the first that it is of */
        uint64_t first_event;   /* how many there were before */
        uint32_t chains, parts; /* that it is of; digests of the level below */
    } levels[VT_DIGEST_LEVELS]; /* [0]: the current chain's */
    struct vt_chunk chunk;
    uint32_t *models; /* by stack id: as in vt_digest_take */
    size_t model_capacity;
    bool failed;
};

/* Learns from a definition on its way to the trace. */
void vt_digest_levels_define(struct vt_digest_levels *levels, const struct vt_record_head *head);
/* Takes the events of a chunk that was written. `first_event`: how many there were before. */
void vt_digest_levels_take(struct vt_digest_levels *levels, const struct vt_chunk *chunk,
                           uint64_t first_event);
/* The chain has ended: appends its digest, and those that it completes. Returns 0 or -errno of the file. */
int vt_digest_levels_end_chain(struct vt_digest_levels *levels, struct vt_trace_file *file,
                               uint64_t ring_position);
void vt_digest_levels_free(struct vt_digest_levels *levels);

#endif
