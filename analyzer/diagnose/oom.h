/* What running out of memory was about, for the text and for JSON. */
#ifndef VT_OOM_H
#define VT_OOM_H

#include "diagnose/fragmentation.h"
#include "view/text/text.h"

/* Blocks of one line and category that would have been freed next. */
struct vt_freed_next {
    uint32_t allocation; /* the first of them: index in replay->allocations */
    uint64_t bytes, blocks;
    uint32_t after_events; /* from the refusal to the first of these frees */
    uint8_t phase;         /* in which such blocks are freed */
};

struct vt_shortage {
    const struct vt_refusal *refusal;      /* the one that the report shows */
    const struct vt_device_report *device; /* its `at` is the refusal; NULL = of no device */
    uint64_t missing_bytes;                /* beyond what the card had free; 0 = nothing, or not known */
    uint64_t other_bytes;                  /* of the card: of other processes, or not seen */
    struct vt_fragmentation cache;
    struct vt_freed_next *freed; /* soonest first */
    size_t freed_count;
    bool freed_is_told; /* as it happened; else by the lives of blocks of the same stacks before */
};

/* The report must have been made with at = "oom". -ENOMEM. */
int vt_shortage_find(const struct vt_report *report, struct vt_shortage *shortage);
void vt_shortage_free(struct vt_shortage *shortage);

/* Who asked for what was refused, in words. */
void vt_asker_name(const struct vt_report *report, const struct vt_refusal *refusal, char *text,
                   size_t bytes);

#endif
