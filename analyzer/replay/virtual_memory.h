/* Handles, mappings and bindings of virtual memory, while a replay is made. */
#ifndef VT_REPLAY_VIRTUAL_MEMORY_H
#define VT_REPLAY_VIRTUAL_MEMORY_H

#include "replay/build.h"

void vt_build_virtual_event(struct vt_build *build, const struct vt_event *event);
/* The allocation of a handle, VT_INDEX_NONE if there is none. */
uint32_t vt_build_memory_of(const struct vt_build *build, uint64_t handle);
/* A release of the handle, or the unmapping `freed`, failed. */
void vt_build_keep_reference(struct vt_build *build, uint64_t address, uint32_t handle);
void vt_build_map_again(struct vt_build *build, const struct vt_event *freed, struct vt_build_free latest);

#endif
