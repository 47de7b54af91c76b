/* Accounts for every byte of a GPU. */
#ifndef VT_FINDINGS_GPU_ACCOUNTING_H
#define VT_FINDINGS_GPU_ACCOUNTING_H

struct vt_device_report;
struct vt_report;

/* Every byte of the device, at the moment shown and at the last reading. */
void vt_gpu_account(const struct vt_report *report, struct vt_device_report *device);
/* The failed request that is shown counts as context what was in use on the GPU when it was first queried:
 * where NVML reported the process's own part, the rest belongs to other processes. After vt_gpu_account of
 * all devices. */
void vt_gpu_account_oom(struct vt_report *report);

#endif
