/* Cohorts: blocks that together have the sizes of the parameters, or of what belongs to them. */
#ifndef VT_ATTRIBUTE_COHORTS_H
#define VT_ATTRIBUTE_COHORTS_H

struct lives;

/* Adds the bits that compare sizes, once all others are there. */
void vt_cohorts_find(struct lives *lives);

#endif
