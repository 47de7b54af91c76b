/* Inference: its requests, and their caches of keys and values. */
#ifndef VT_DIAGNOSE_INFERENCE_H
#define VT_DIAGNOSE_INFERENCE_H

struct vt_device_report;
struct vt_inference;
struct vt_report;

/* Of a device where nothing went backward. */
void vt_inference_find(const struct vt_report *report, const struct vt_device_report *device,
                       struct vt_inference *inference);

#endif
