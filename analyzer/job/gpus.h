/* The GPUs of a job, and what their processes held. */
#ifndef VT_JOB_GPUS_H
#define VT_JOB_GPUS_H

#include <stdint.h>

struct vt_job_card;
struct vt_job_maker;

void vt_job_find_gpus(struct vt_job_maker *maker);
/* What the processes of a GPU held at a time, instead of at their peak. */
void vt_job_gpu_at(struct vt_job_maker *maker, uint32_t gpu_index, uint64_t t_ns, struct vt_job_card *card);

#endif
