/* Which allocations count at a moment, and what is shown of each. */
#ifndef VT_REPORT_BLOCKS_H
#define VT_REPORT_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_report;
struct vt_attribution;
struct vt_allocation;
struct vt_replay;
struct vt_label;
struct vt_block;
struct vt_instant;

/* True if an allocation has bytes of its own: not segments and pools, whose rest is the cache, and not a
 * context, which nobody owns. */
bool vt_is_grouped(const struct vt_allocation *allocation);
/* ... and is alive on the device just after the event. */
bool vt_is_counted(const struct vt_allocation *allocation, int device_index, uint32_t event_index);
/* True for page-locked memory of this process, which lies on no device. */
bool vt_is_host_memory(const struct vt_allocation *allocation);
/* All of these: their indices in the replay, in order. The caller frees the items. */
struct vt_counted {
    uint32_t *items;
    size_t count;
};
struct vt_counted vt_counted_at(const struct vt_replay *replay, int device_index, uint32_t event_index);
/* The stack to show for an allocation: in backward, that of the forward operator whose node made it, if
 * known. */
uint32_t vt_telling_stack(const struct vt_attribution *attribution, const struct vt_allocation *allocation);
/* The module that an allocation is shown with, or NULL: workspaces and communication buffers serve all
 * modules, even if one was the first to need them. */
const char *vt_shown_module(const struct vt_label *label);

/* All that is printed of an allocation, but its number. */
void vt_block_set(const struct vt_report *report, uint32_t allocation, struct vt_block *block);
/* Fills instant->blocks. */
void vt_list_blocks(const struct vt_report *report, int device_index, struct vt_instant *instant);

#endif
