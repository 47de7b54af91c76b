/* Finds contexts without memory. */
#ifndef VT_DIAGNOSE_EMPTY_CONTEXTS_H
#define VT_DIAGNOSE_EMPTY_CONTEXTS_H

struct vt_report;

/* Devices with a context but without memory, after the tables of all GPUs. */
void vt_empty_contexts_find(struct vt_report *report);

#endif
