/* What the peak would have been without some bytes for some time. */
#ifndef VT_WHATIF_H
#define VT_WHATIF_H

#include "replay/replay.h"

struct vt_whatif {
    const struct vt_replay *replay;
    int device_index;
    bool blocks; /* the framework's are what counts */
    /* Modulo 2^64, since the sums of a hostile trace have no bound; as signed numbers: */
    uint64_t *used;    /* by event: bytes in use after it, as the report's peak counts them */
    uint64_t *changes; /* by event, and one beyond the last: added to all from there on */
    uint64_t peak_bytes;
    uint32_t peak_event;
};

void vt_whatif_make(const struct vt_replay *replay, int device_index, struct vt_whatif *whatif);
/* Sets fresh `changes`. */
void vt_whatif_begin(struct vt_whatif *whatif);
void vt_whatif_free(struct vt_whatif *whatif);

/* True for what the peak counts: the framework's blocks, or without any what the driver gave. */
bool vt_whatif_counts(const struct vt_whatif *whatif, const struct vt_allocation *allocation);

/* `bytes` less (0 - bytes: more) after events from `first` to before `end` (VT_NEVER = to the end). */
void vt_whatif_less(struct vt_whatif *whatif, uint32_t first, uint32_t end, uint64_t bytes);
/* How much lower the peak would be with all changes since the last call, which are then forgotten; 0 if it
 * would not be lower. */
uint64_t vt_whatif_saves(struct vt_whatif *whatif);

#endif
