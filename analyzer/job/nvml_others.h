/* What NVML reported to the users of a GPU about each other process on it, over time. */
#ifndef VT_NVML_OTHERS_H
#define VT_NVML_OTHERS_H

#include "base/index.h"

/* What was reported to one user about one process. */
struct vt_gpu_telling {
    uint64_t bytes;
    uint32_t process, next_of_process, next_of_user; /* VT_INDEX_NONE = none */
};
struct vt_gpu_other {
    uint64_t bytes; /* the most that is reported to a user: lists may be some time old */
    uint32_t first; /* telling */
};
struct vt_gpu_others {
    struct vt_index pids, tellings; /* by pid; by user and process */
    struct vt_index firsts;         /* by user: the latest telling of it */
    struct vt_gpu_other *processes;
    struct vt_gpu_telling *items;
    size_t process_count, process_capacity, count, capacity;
    uint64_t bytes; /* of all processes */
};

void vt_gpu_others_free(struct vt_gpu_others *others);
/* From now on this much is reported to that user. */
void vt_gpu_others_tell(struct vt_gpu_others *others, uint32_t user, uint32_t pid, uint64_t bytes);
/* Nothing is reported to that user any more. */
void vt_gpu_others_leave(struct vt_gpu_others *others, uint32_t user);

#endif
