/* The header's running totals, and the size of each live driver allocation, so that a free is recorded with
 * its bytes. Threads: any; a short lock, never held across a call out of this file; waits for it are bounded.
 */
#ifndef VT_LIVE_BLOCKS_H
#define VT_LIVE_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vramtrace/format.h"

struct vt_session;
struct vt_live_entry;

/* A part of the session: a forked child has its own, without a lock that a thread of its parent held. */
struct vt_live_table {
    struct vt_live_entry *entries; /* NULL until the first of them */
    uint32_t used, bits;           /* 1 << bits entries */
    _Atomic int busy, stuck;       /* stuck: a wait for the holder of `busy` has failed */
};

/* In a forked child: memory.h. */
void vt_live_replace_memory(struct vt_live_table *table);

/* Updates the totals by a driver or runtime event, and fills in a free's bytes and device where known. */
void vt_live_driver(struct vt_session *session, struct vt_event *event);

/* The card of the driver allocation at `address`, -1 = none is known. */
int8_t vt_live_device(struct vt_session *session, uint64_t address);

/* Fills in the total of a block of a framework that does not count, and a free's bytes and device; with a
 * `handle` (else 0), its address too; `part_of` as in record.h. False: a free of what is not known, or there
 * is no memory to know the block or its holder does not let the table go; the last two are counted as
 * dropped. */
bool vt_live_block(struct vt_session *session, struct vt_event *event, uint64_t handle, uint64_t part_of);
/* The same total for a request that such a framework refuses. False: of no device. */
bool vt_live_refusal(struct vt_session *session, struct vt_event *event);

/* The block that is known by a handle, of a framework that does not count. False if there is none. */
struct vt_live_place {
    uint64_t address, bytes;
    int device_index;
    uint64_t next_part; /* handle, 0 = none is known */
};
bool vt_live_find_handle(struct vt_session *session, uint64_t handle, struct vt_live_place *place);
/* The same by its address. */
bool vt_live_find_block(struct vt_session *session, uint64_t address, struct vt_live_place *place);

/* The header's totals of blocks, by what frameworks count themselves and what we count. Returns whether more
 * is alive than ever before. */
bool vt_live_framework(struct vt_session *session, const struct vt_event *event);

#endif
