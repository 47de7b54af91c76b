/* What could be done about memory of a GPU that is not the framework's. */
#ifndef VT_DIAGNOSE_GPU_ADVICE_H
#define VT_DIAGNOSE_GPU_ADVICE_H

struct vt_gpu_table;
struct vt_report;

/* What could be done about it, of a table that is complete but for this (gpu_advice.c). */
void vt_gpu_advise(const struct vt_report *report, struct vt_gpu_table *table);

#endif
