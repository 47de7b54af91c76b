/* Inference: its requests, and their caches of keys and values. */
#ifndef VT_FINDINGS_INFERENCE_H
#define VT_FINDINGS_INFERENCE_H

struct vt_device_report;
struct vt_inference;
struct vt_report;

/* Of a device where nothing went backward. */
struct vt_inference vt_inference_find(const struct vt_report *report, const struct vt_device_report *device);

#endif
