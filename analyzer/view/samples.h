/* Shared by exports that show call stacks: all stacks of a trace, and the memory alive at the moment that
 * each device of the report shows. */
#ifndef VT_SAMPLES_H
#define VT_SAMPLES_H

#include "view/exports.h"

/* ---- Stacks ---- */

/* Frames of all stacks. */
struct vt_stack_list {
    struct vt_frame_row *frames; /* by id; the last one stands between forward and backward code */
    size_t frame_count, frame_capacity;
    uint32_t *frame_ids; /* of all stacks, one behind the other, each innermost first */
    size_t id_count, id_capacity;
    uint32_t *ends; /* by stack id: where it ends in frame_ids; it begins where the one before ends */
    size_t stack_count, stack_capacity;
};

void vt_stacks_read(struct vt_tables *tables, struct vt_stack_list *stacks);
void vt_stacks_free(struct vt_stack_list *stacks);

#define VT_CHAIN_FRAMES 1100u /* two stacks of vt_table_walk, and what stands between them */

/* Ids of the frames to show for an allocation, innermost first: its stack; where the backward of a forward
 * operator made it, then the frame "backward of" and the operator's stack, as if it had called its backward.
 * Returns their number. */
size_t vt_stack_chain(const struct vt_stack_list *stacks, uint32_t stack_id, uint32_t forward_stack_id,
                      uint32_t ids[VT_CHAIN_FRAMES]);

/* ---- What is alive ---- */

/* Memory of one device, category, stack and label. Text is NULL where it is not known. */
struct vt_sample {
    int device_index;
    uint8_t category, phase, evidence;
    uint32_t stack_id, forward_stack_id, step; /* stack 0 = none */
    uint64_t bytes, count;                     /* count: allocations; 0 for the cache */
    const char *kind, *owner, *module, *module_class, *operator_name, *dtype;
};

/* Samples of all devices of the report, each at the moment it shows: one for each allocation, and one for the
 * device's cache. For each device they add up to the categories of that moment, and so to its driver bytes;
 * page-locked host memory is left out. In order of device, category and stacks. */
struct vt_sample_list {
    struct vt_sample *items;
    size_t count, capacity;
};

void vt_samples_read(const struct vt_export *export, struct vt_sample_list *samples);
void vt_samples_free(struct vt_sample_list *samples);
/* Merges samples with the same device, category and stacks; the labels of the first stay. */
void vt_samples_merge(struct vt_sample_list *samples);

#endif
