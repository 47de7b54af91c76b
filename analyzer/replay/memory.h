/* Driver memory by address, and contexts, while a replay is made. */
#ifndef VT_REPLAY_MEMORY_H
#define VT_REPLAY_MEMORY_H

#include <stdint.h>

struct vt_build;
struct vt_event;

void vt_build_driver_alloc(struct vt_build *build, const struct vt_event *event);
void vt_build_driver_free(struct vt_build *build, const struct vt_event *event);
/* A free of the allocation (VT_INDEX_NONE: of nothing known) failed. */
void vt_build_keep_memory(struct vt_build *build, uint64_t address, uint32_t allocation);
/* Adds signed bytes that a context took without an allocation call; they end with it, if it is known. */
void vt_build_change_context(struct vt_build *build, int device_index, uint64_t context, uint64_t bytes);
void vt_build_context_create(struct vt_build *build, const struct vt_event *event);
void vt_build_context_destroy(struct vt_build *build, const struct vt_event *event);

#endif
