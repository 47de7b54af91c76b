/* Finds blocks with a multiple of the size of parameters. */
#ifndef VT_ATTRIBUTE_MULTIPLES_H
#define VT_ATTRIBUTE_MULTIPLES_H

struct lives;

/* Adds VT_LIFE(GATHERED), and MATCHES_PARAMETER for gradients of each sample, once the
 * parameters are listed. */
void vt_lives_find_multiples(struct lives *lives);

#endif
