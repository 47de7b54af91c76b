/* What fills the GPU beside the program's own tensors. */
#ifndef VT_FINDINGS_CAUSES_OUTSIDE_H
#define VT_FINDINGS_CAUSES_OUTSIDE_H

struct vt_cause_search;

void vt_cause_other_process(struct vt_cause_search *search);
void vt_cause_other_library(struct vt_cause_search *search);
void vt_cause_idle_pool(struct vt_cause_search *search);

#endif
