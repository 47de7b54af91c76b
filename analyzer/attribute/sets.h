/* Finds sets of blocks with the sizes of all parameters. */
#ifndef VT_ATTRIBUTE_SETS_H
#define VT_ATTRIBUTE_SETS_H

struct lives;

/* Adds like-all-parameters, and matches-parameter for what files hold. */
void vt_lives_find_sets(struct lives *lives);

#endif
