/* Finds blocks that replace a parameter. */
#ifndef VT_ATTRIBUTE_REPLACEMENTS_H
#define VT_ATTRIBUTE_REPLACEMENTS_H

#include <stdint.h>

struct vt_phases;
struct vt_replay;
struct vt_traits_by_stack;

/* Adds VT_LIFE(REPLACES_PARAMETER). */
void vt_replacements_find(const struct vt_replay *replay, const struct vt_traits_by_stack *sites,
                          const struct vt_phases *phases, uint64_t *lives);

#endif
