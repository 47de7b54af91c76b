/* Inference: its requests, and their caches of keys and values. */
#ifndef VT_FINDINGS_INFERENCE_H
#define VT_FINDINGS_INFERENCE_H

#include <stdbool.h>

struct vt_allocation;
struct vt_attribution;
struct vt_device_report;
struct vt_inference;
struct vt_report;

/* Of a device where nothing went backward. */
struct vt_inference vt_inference_find(const struct vt_report *report, const struct vt_device_report *device);

/* Whether the block is of a pool for sequences to come: keys and values that are laid out outside of the
 * model's calls. Those of sequences that are there are made within. */
bool vt_is_of_pool(const struct vt_attribution *attribution, const struct vt_allocation *block);

#endif
