/* Finds requests of an inference, and their caches. */
#ifndef VT_DIAGNOSE_INFERENCE_H
#define VT_DIAGNOSE_INFERENCE_H

struct vt_device_report;
struct vt_inference;
struct vt_report;

/* Requests and caches of keys and values of a device, where nothing went backward. */
void vt_inference_find(const struct vt_report *report, const struct vt_device_report *device,
                       struct vt_inference *inference);

#endif
