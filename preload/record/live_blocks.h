/* The header's running totals, and the size of each live driver allocation, so that a free is recorded with
 * its bytes. Threads: any; a short lock, never held across a call out of this file, with bounded waits. */
#ifndef VT_LIVE_BLOCKS_H
#define VT_LIVE_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vramtrace/format.h"

struct vt_session;

/* Part of the session, as are the tables, so that a forked child has its own, which no thread of its parent
 * held. */
struct vt_live_lock {
    _Atomic int busy, stuck; /* stuck: a wait for `busy` has timed out */
};

/* Memory with one of these flags takes none of the device's. */
enum { VT_NO_DEVICE_MEMORY = VT_FLAG_HOST | VT_FLAG_REGISTERED | VT_FLAG_FOREIGN | VT_FLAG_CAPTURED };

static inline bool vt_makes_device_memory(const struct vt_event *event)
{
    return (event->kind == VT_EVENT_ALLOC || event->kind == VT_EVENT_HANDLE_CREATE) &&
           !(event->flags & VT_NO_DEVICE_MEMORY);
}

static inline bool vt_ends_memory(const struct vt_event *event)
{
    return event->kind == VT_EVENT_FREE || event->kind == VT_EVENT_HANDLE_RELEASE;
}

/* Updates the totals for a driver or runtime event, and fills in a free's bytes and device if known. */
void vt_live_driver(struct vt_session *session, struct vt_event *event);

/* The device of the driver allocation at `address`; -1 = not known. */
int8_t vt_live_device(struct vt_session *session, uint64_t address);

/* For a block of a framework without a counter: fills in the total, and a free's bytes and device; with a
 * `handle` (else 0) its address too. `part_of`: as in record.h. False: a free of an unknown block, or no
 * memory for the block, or the table's lock was not free in time; the last two are counted as dropped. */
bool vt_live_block(struct vt_session *session, struct vt_event *event, uint64_t handle, uint64_t part_of);
/* Fills in the same total for an out-of-memory event of such a framework. False if it has no device. */
bool vt_live_oom(struct vt_session *session, struct vt_event *event);

/* The block of a framework without a counter, found by its handle. False if there is none. */
struct vt_live_place {
    uint64_t address, bytes;
    int device_index;
    uint64_t next_part; /* handle; 0 = none, or not known */
};
bool vt_live_find_handle(struct vt_session *session, uint64_t handle, struct vt_live_place *place);
/* The same, found by its address. */
bool vt_live_find_block(struct vt_session *session, uint64_t address, struct vt_live_place *place);

/* Updates the header's block totals: frameworks' own counts plus ours. Returns true at a new peak. */
bool vt_live_framework(struct vt_session *session, const struct vt_event *event);

#endif
