/* Compares the sizes of blocks with those of parameters. */
#ifndef VT_ATTRIBUTE_SIZES_H
#define VT_ATTRIBUTE_SIZES_H

#include "attribute/lives.h"

/* Adds the bits that compare the sizes of blocks, once all others are there. */
void vt_lives_compare_sizes(struct lives *lives);
bool vt_lives_is_parameter(const struct lives *lives, size_t i);
/* Whether a set has nearly all parameters, or nearly all trained ones. */
bool vt_lives_are_all_parameters(const struct lives *lives, struct weight set);
/* Sets `parameter_sizes` to the sizes of the parameters, each `times` times. */
void vt_lives_index_parameters(struct lives *lives, uint32_t times);

#endif
