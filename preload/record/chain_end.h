/* Where a chain ends: where few blocks are alive, so that its digest is small. The longer the chain gets, the
 * more may be. */
#ifndef VT_CHAIN_END_H
#define VT_CHAIN_END_H

#include <stdbool.h>
#include <stdint.h>

#include "vramtrace/format.h"

struct vt_chain_end {
    int64_t live;        /* allocations now */
    int64_t least, most; /* in the latter part of the chain */
};

/* Takes the chain's next event; `place` events were before it. `length`: of a chain, about. True if the chain
 * should end with this event. */
static inline bool vt_chain_may_end(struct vt_chain_end *end, const struct vt_event *event, uint32_t place,
                                    uint32_t length)
{
    end->live += (event->kind == VT_EVENT_ALLOC) - (event->kind == VT_EVENT_FREE);
    if (place <= length / 2)
        end->least = end->most = end->live;
    end->least = end->live < end->least ? end->live : end->least;
    end->most = end->live > end->most ? end->live : end->most;
    if (place < length)
        return false;
    const int64_t late = place - length, latest = length / 2, above = end->live - end->least;
    return late >= latest || above * latest * latest <= (end->most - end->least) * late * late;
}

#endif
