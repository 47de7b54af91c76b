/* Finds the processes that stand out among those like them. */
#ifndef VT_JOB_OUTLIERS_H
#define VT_JOB_OUTLIERS_H

#include <stddef.h>
#include <stdint.h>

struct vt_job_device;
struct vt_job_maker;
struct vt_job_odd;
struct vt_job_process;

void vt_job_find_outliers(struct vt_job_maker *maker);

/* The device of a process that had the most in use at the moment that is compared; NULL = it has none. */
const struct vt_job_device *vt_job_main_device(const struct vt_job_process *process);

/* Compares a device of a process with those of similar processes, among which it may be: what is usual is
 * their median. */
void vt_job_compare(struct vt_job_maker *maker, uint32_t process, const struct vt_job_device *device,
                    const struct vt_job_device *const *others, size_t other_count, struct vt_job_odd *odd);

#endif
