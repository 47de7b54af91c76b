/* Causes of an out of memory that lie in the step itself. */
#ifndef VT_CAUSES_STEPS_H
#define VT_CAUSES_STEPS_H

#include "findings/causes.h"

/* Results that are kept since gradients were last computed: an evaluation's. */
void vt_cause_kept_results(struct vt_cause_search *search);

#define VT_STEP_PARTS "activations, inputs and temporaries, including the failed request"

/* ": inputs 96.00 KiB, were 16.00 KiB in steps 1–3; …" where the line that made the step's inputs made
 * smaller ones in all earlier steps; else "". */
void vt_input_growth(const struct vt_cause_search *search, char *text, size_t bytes);

#endif
