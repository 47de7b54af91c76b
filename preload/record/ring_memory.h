/* Memory for the ring: a file in tmpfs, which survives the process, or else private memory. Threads: the
 * writer's, unless said otherwise. */
#ifndef VT_RING_MEMORY_H
#define VT_RING_MEMORY_H

#include "options.h"
#include "record/ring.h"

/* Makes header and slots, as large as the settings and the free memory allow, and fills in `process` and
 * `identity`. `path`: the ring's file, "" for private memory. Returns 0 or -ENOMEM. */
int vt_ring_make(struct vt_ring *ring, const struct vt_options *options,
                 const struct vt_process_identity *process, const uint8_t identity[16],
                 char path[VT_RING_PATH_BYTES]);

/* Size of the mapping that starts at ring->header. */
static inline size_t vt_ring_mapped_bytes(const struct vt_ring *ring)
{
    return VT_RING_HEADER_BYTES + ring->slot_count * VT_SLOT_BYTES;
}

/* Removes the file and returns its memory. The slots are replaced by other memory, since threads that got
 * the session just before its end may still store there. */
void vt_ring_release(const struct vt_ring *ring, char *path);

/* Removes everything; no other thread knows of the ring yet. */
void vt_ring_discard(struct vt_ring *ring, const char *path);

/* The folders for rings, in the order in which they are tried; NULL past the last. */
const char *vt_ring_folder(const struct vt_options *options, unsigned number);

#endif
