/* Models that are on the GPU beside the one that is used. */
#ifndef VT_FINDINGS_CAUSES_MODELS_H
#define VT_FINDINGS_CAUSES_MODELS_H

struct vt_cause_search;

void vt_cause_second_model(struct vt_cause_search *search);
void vt_cause_idle_model(struct vt_cause_search *search);

#endif
