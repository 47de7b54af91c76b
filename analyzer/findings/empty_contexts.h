/* Contexts without memory. */
#ifndef VT_FINDINGS_EMPTY_CONTEXTS_H
#define VT_FINDINGS_EMPTY_CONTEXTS_H

struct vt_report;

/* After the tables of all GPUs. */
void vt_empty_contexts_find(struct vt_report *report);

#endif
