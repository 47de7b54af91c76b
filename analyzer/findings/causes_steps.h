/* Causes of an out of memory that lie in the step itself. */
#ifndef VT_CAUSES_STEPS_H
#define VT_CAUSES_STEPS_H

struct vt_cause_search;

/* Nothing is wrong but the size, of the inputs or of the model. */
void vt_cause_size(struct vt_cause_search *search);
/* Results that are kept since gradients were last computed: an evaluation's. */
void vt_cause_kept_results(struct vt_cause_search *search);

#endif
