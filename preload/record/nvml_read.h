/* Calls NVML. Its types are written out here, since the recorder is built without its header. Threads: one
 * of ours that has its own descriptors, always the same one. */
#ifndef VT_NVML_READ_H
#define VT_NVML_READ_H

#include "record/chunk.h"

struct vt_nvml_library; /* one per process; static */

/* Loads and initialises NVML; NULL if there is none. */
const struct vt_nvml_library *vt_nvml_load(void);

/* NVML's handle of the GPU with this 16-byte UUID; NULL if it does not know it. */
void *vt_nvml_find_gpu(const struct vt_nvml_library *library, const uint8_t *uuid);

/* Appends a struct vt_gpu_use. False if NVML did not report the GPU's bytes. */
bool vt_nvml_read(const struct vt_nvml_library *library, void *gpu, uint32_t device_index,
                  struct vt_buffer *definitions);

#endif
