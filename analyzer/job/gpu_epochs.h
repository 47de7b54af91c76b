/* The users of a GPU, and what it held from moment to moment: their own memory, their contexts, and memory
 * of processes without a trace. */
#ifndef VT_GPU_EPOCHS_H
#define VT_GPU_EPOCHS_H

#include "job/nvml_others.h"
#include "report/job.h"

/* A device with its process, among those of one GPU; also one with only a context. */
struct vt_gpu_user {
    struct vt_job_process *process;
    struct vt_job_device *device;
    uint64_t now_bytes, context_bytes, most_bytes;
    bool alive; /* has a context */
    bool gone;
};

/* When it began to have a context there. */
uint64_t vt_gpu_user_from(const struct vt_gpu_user *user);
/* Driver memory without the context; 0 while it was not there. */
uint64_t vt_gpu_user_bytes(const struct vt_gpu_user *user, uint64_t t_ns);

struct vt_gpu_moment;

/* Walks all changes of a GPU in order. Where NVML reported what each user has beside its own memory, that
 * counts, with what it reported for others; else the driver's reports for the GPU, from one arrival or
 * departure to the next. */
struct vt_gpu_walk {
    struct vt_gpu_user *users;
    size_t count, alive;
    struct vt_gpu_moment *moments;
    size_t moment_count, next;
    bool told;
    uint64_t t_ns, own_bytes, context_bytes; /* of all users, now */
    struct vt_gpu_others others;
    /* Where it is not reported: the bytes beside the users, by arrival and departure. */
    uint64_t *beside;
    size_t beside_count, beside_at;
};

void vt_gpu_walk_begin(struct vt_gpu_walk *walk, struct vt_gpu_user *users, size_t count);
/* Goes to the next time at which something changes. False after the last. */
bool vt_gpu_walk_next(struct vt_gpu_walk *walk);
/* The time that comes next; UINT64_MAX after the last. */
uint64_t vt_gpu_walk_next_ns(const struct vt_gpu_walk *walk);
/* What the GPU holds beside its users' own memory now. */
uint64_t vt_gpu_walk_beside(const struct vt_gpu_walk *walk);
void vt_gpu_walk_end(struct vt_gpu_walk *walk);

#endif
