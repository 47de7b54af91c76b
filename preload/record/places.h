/* Where the blocks of PyTorch's allocator lie: the stream that they are made on. A stack has one place
 * (format.h, struct vt_stack), so that blocks cost nothing. */
#ifndef VT_PLACES_H
#define VT_PLACES_H

#include "record/session.h"

/* The id of a place, which is recorded when it is new; 0 if it could not be. Threads: any. */
uint32_t vt_place_id(struct vt_session *session, int device_index, uint64_t stream);

/* Settings that the program gave the allocator while it ran. */
void vt_place_settings(struct vt_session *session, const char *settings);

#endif
