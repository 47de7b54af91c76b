/* What the peak would have been without some bytes for some time. */
#ifndef VT_WHATIF_H
#define VT_WHATIF_H

#include "replay/replay.h"
#include "report/findings.h"

struct vt_whatif {
    const struct vt_replay *replay;
    int device_index;
    bool blocks; /* the framework's are what counts */
    /* Modulo 2^64, since the sums of a hostile trace have no bound; as signed numbers: */
    uint64_t *used;    /* by event: bytes in use after it, as the report's peak counts them */
    uint64_t *changes; /* by event, and one beyond the last: added to all from there on */
    uint64_t peak_bytes;
    uint32_t peak_event;
    struct vt_savings
        savings; /* since the last call of vt_whatif_saves: `allocations`; by that call: the rest */
};

void vt_whatif_make(const struct vt_replay *replay, int device_index, struct vt_whatif *whatif);
/* Sets fresh `changes`. */
void vt_whatif_begin(struct vt_whatif *whatif);
void vt_whatif_free(struct vt_whatif *whatif);

/* True for what the peak counts: the framework's blocks, or without any what the driver gave. */
bool vt_whatif_counts(const struct vt_whatif *whatif, const struct vt_allocation *allocation);

/* `bytes` less (0 - bytes: more) after events from `first` to before `end` (VT_NEVER = to the end), of this
 * allocation (NULL = of some that vt_whatif_touch names). */
void vt_whatif_less(struct vt_whatif *whatif, const struct vt_allocation *of, uint32_t first, uint32_t end,
                    uint64_t bytes);
void vt_whatif_touch(struct vt_whatif *whatif, const struct vt_allocation *allocation);
/* How much lower the peak would be with all changes since the last call, which are then forgotten; 0 if it
 * would not be lower. Sets `savings`. */
uint64_t vt_whatif_saves(struct vt_whatif *whatif);
/* The savings, which the caller owns. */
struct vt_savings vt_whatif_take(struct vt_whatif *whatif);
void vt_savings_free(struct vt_savings *savings);

#endif
