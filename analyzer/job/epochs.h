/* The users of a card, and what it held beside their own memory: their contexts, and what has no trace. */
#ifndef VT_JOB_EPOCHS_H
#define VT_JOB_EPOCHS_H

#include "job/parts.h"

/* A device with its process, among those of one card; of a context alone too. */
struct vt_card_user {
    struct vt_job_process *process;
    struct vt_job_device *device;
    size_t at; /* the next of its levels */
    bool has_context;
    uint64_t now_bytes, most_bytes;
};

/* When it began to have a context there, and until when. */
uint64_t vt_card_user_from(const struct vt_card_user *user);
uint64_t vt_card_user_until(const struct vt_card_user *user);
/* Driver memory without the context; 0 while it was not there. */
uint64_t vt_card_user_bytes(const struct vt_card_user *user, uint64_t t_ns);

/* A time in which no user of a card came or went, and what was in use beside their own memory. */
struct vt_card_epoch {
    uint64_t from_ns, bytes;
    size_t alive;
};

/* Those of a card, in order: they begin when a context was first seen, when one had ended, and when another
 * process was told to have more or less. The caller frees them. NULL without memory. */
struct vt_card_epoch *vt_card_epochs(const struct vt_card_user *users, size_t count, size_t *epoch_count);

#endif
