/* What could be done about what fills a GPU, row by row of its table. */
#ifndef VT_FINDINGS_GPU_ADVICE_H
#define VT_FINDINGS_GPU_ADVICE_H

struct vt_gpu_table;
struct vt_report;

/* The table is complete but for this. */
void vt_gpu_advise(const struct vt_report *report, struct vt_gpu_table *table);

#endif
