/* What NVML reported for this process, among those that have memory on a GPU. */
#ifndef VT_NVML_SELF_H
#define VT_NVML_SELF_H

#include <stdbool.h>
#include <stdint.h>

struct vt_gpu_readings;
struct vt_gpu_reading;

struct vt_nvml_self {
    bool trusted; /* what NVML seems to report for this process mostly fitted it */
    bool listed;  /* in one reading at least */
};
struct vt_nvml_self vt_nvml_self_find(const struct vt_gpu_readings *readings);

/* How processes are known by a reading: VT_PROCESSES_*. */
const char *vt_nvml_self_processes(const struct vt_nvml_self *own, const struct vt_gpu_reading *reading);
bool vt_nvml_self_told(const struct vt_nvml_self *own, const struct vt_gpu_reading *reading);
/* For a reading that reports it. */
uint64_t vt_nvml_self_bytes(const struct vt_gpu_reading *reading);
/* In use, but of no process that NVML lists: the driver keeps about 9 MiB of an H100 for none. 0 where a
 * process's bytes are not known. */
uint64_t vt_nvml_unlisted_bytes(const struct vt_gpu_reading *reading);

#endif
