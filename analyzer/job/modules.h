/* Compares modules of several processes under names that mean the same in all. */
#ifndef VT_JOB_MODULES_H
#define VT_JOB_MODULES_H

#include "report/job.h"

struct vt_job_maker;

/* What named_bytes of a part are of. */
extern const uint8_t vt_job_named_categories[VT_JOB_NAMED];
/* The order of a struct vt_job_parts. */
int vt_job_compare_parts(const void *left, const void *right);
/* NULL = it has no such part. */
const struct vt_job_part *vt_job_find_part(const struct vt_job_parts *parts, const char *name, uint8_t phase);
/* Fills `parts`, one for each device, with its modules under names that mean the same in all.
 * Where some have no names of a category, it is in no module. */
void vt_job_align_modules(struct vt_job_maker *maker, const struct vt_job_device *const *devices,
                          size_t count, struct vt_job_parts *parts);

#endif
