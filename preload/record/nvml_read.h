/* Talking to NVML, whose types are written out here: the recorder is built without its header. A thread of
 * ours that has parted from the descriptors, always the same one. */
#ifndef VT_NVML_READ_H
#define VT_NVML_READ_H

#include "record/chunk.h"

struct vt_nvml_library; /* of the process; static */

/* Loads and initialises it; NULL without NVML. */
const struct vt_nvml_library *vt_nvml_load(void);

/* NVML's handle of a card by the 16 bytes of its UUID, NULL if it has none. */
void *vt_nvml_find_card(const struct vt_nvml_library *library, const uint8_t *uuid);

/* Adds a struct vt_card_use; false if the card's bytes were not told. */
bool vt_nvml_read(const struct vt_nvml_library *library, void *card, uint32_t device_index,
                  struct vt_buffer *definitions);

#endif
