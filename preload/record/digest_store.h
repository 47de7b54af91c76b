/* The events of a digest, and what later ones may still undo. Private to digests. */
#ifndef VT_DIGEST_STORE_H
#define VT_DIGEST_STORE_H

#include "format/past.h"
#include "record/digest.h"

enum { VT_DIGEST_FIRST_PLACES = 1 << 12 }; /* a power of two */

static inline bool vt_digest_is_block(const struct vt_event *event)
{
    return event->layer == VT_LAYER_FRAMEWORK;
}

/* An event is left out that was never kept. */
static inline void vt_digest_omit(struct vt_digest *digest)
{
    digest->omitted_events++;
}

/* Makes room for one event more. False if that failed. */
bool vt_digest_prepare(struct vt_digest *digest);
/* Adds an event; NULL if it failed. It stays there until vt_digest_prepare. */
struct vt_event *vt_digest_keep(struct vt_digest *digest, const struct vt_event *event);
void vt_digest_leave_out(struct vt_digest *digest, size_t position);
/* Takes those that were left out away. False if memory ran out. */
bool vt_digest_close_up(struct vt_digest *digest);

/* What a later event is compared by: of the same class and address. 0: nothing undoes it. */
uint64_t vt_digest_class_of(const struct vt_event *event);

/* Places: where the event that `event` may undo is, or an empty place. */
size_t vt_digest_find(const struct vt_digest *digest, const struct vt_event *event);
void vt_digest_put_place(struct vt_digest *digest, size_t at, size_t position);
void vt_digest_remove_place(struct vt_digest *digest, size_t at);
bool vt_digest_make_places(struct vt_digest *digest, size_t count);

#endif
