/* Labels runs of forward without gradients as evaluation. */
#ifndef VT_ATTRIBUTE_EVALUATION_H
#define VT_ATTRIBUTE_EVALUATION_H

struct vt_finder;

void vt_evaluation_find(struct vt_finder *finder);

#endif
