/* What a snapshot is made from: allocations, in the roles that they play in it, and call stacks. */
#ifndef VT_MEMORY_VIZ_SNAPSHOT_H
#define VT_MEMORY_VIZ_SNAPSHOT_H

#include "report/tables.h"
#include "view/memory_viz/pickle.h"

enum vt_memory_role {
    VT_MEMORY_NONE,    /* not shown */
    VT_MEMORY_BLOCK,   /* in a segment of the caching allocator */
    VT_MEMORY_SEGMENT, /* of the caching allocator, by one call */
    VT_MEMORY_MAPPED,  /* the same by mapping: a part of an expandable segment */
    VT_MEMORY_DIRECT   /* a segment with one block, which fills it */
};

struct vt_memory {
    uint64_t address, bytes, rounding_bytes;
    uint64_t t_ns, free_t_ns;
    uint32_t alloc_event, free_event; /* UINT32_MAX = alive at the end */
    uint32_t stack, free_stack;
    const char *kind, *about; /* the owner or module, "" = not known */
    int device_index;
    uint8_t role, category;
};

struct vt_snapshot {
    const struct vt_report *report;
    struct vt_memory *memory; /* by number of the allocation */
    size_t memory_count, memory_capacity;
    struct vt_frame *frames; /* by number */
    size_t frame_count, frame_capacity;
    uint32_t *stack_frames; /* numbers of frames, stack by stack, innermost first */
    size_t stack_frame_count, stack_frame_capacity;
    uint32_t *stack_starts; /* by stack: where its frames begin; one more at the end */
    size_t stack_count, stack_capacity;
    /* What the pickle has: VT_INDEX_NONE = not yet. */
    uint32_t *written_frames, *written_stacks;
    struct vt_pickle pickle;
};

/* -ENOMEM. In each case vt_snapshot_free frees. */
int vt_snapshot_make(const struct vt_report *report, struct vt_tables *tables, struct vt_snapshot *snapshot);
void vt_snapshot_free(struct vt_snapshot *snapshot);

/* ---- Parts of the pickle ---- */

void vt_snapshot_key_text(struct vt_snapshot *snapshot, const char *key, const char *text);
void vt_snapshot_key_number(struct vt_snapshot *snapshot, const char *key, uint64_t number);
/* "frames": the list of a stack's frames, 0 = empty. */
void vt_snapshot_frames(struct vt_snapshot *snapshot, uint32_t stack);
/* Microseconds since 1970 of a time since recording began. */
uint64_t vt_snapshot_time(const struct vt_snapshot *snapshot, uint64_t t_ns);

/* actions.c: the lists of what happened, by device. -ENOMEM. */
int vt_snapshot_actions(struct vt_snapshot *snapshot, size_t devices);

#endif
