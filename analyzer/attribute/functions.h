/* Finds the function that computes a model, where no module ever runs. */
#ifndef VT_ATTRIBUTE_FUNCTIONS_H
#define VT_ATTRIBUTE_FUNCTIONS_H

struct vt_finder;

/* Adds the trait `module` to what the function of a model allocates, where no module ever runs.
 */
void vt_functions_find(struct vt_finder *finder);

#endif
