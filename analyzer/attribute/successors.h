/* Finds blocks that follow a parameter. */
#ifndef VT_ATTRIBUTE_SUCCESSORS_H
#define VT_ATTRIBUTE_SUCCESSORS_H

struct lives;

/* Adds VT_LIFE(FOLLOWS_PARAMETER), once the bits of parameters that stay are there. */
void vt_lives_follow_parameters(struct lives *lives);

#endif
