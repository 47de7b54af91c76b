/* Identities: what must hold for the blocks of an optimizer, whatever the program does. Labels that break one
 * are decided again, if one other choice of them restores it; else none of them is strong any more. What an
 * inspection read from live objects stays as it is. */
#ifndef VT_ATTRIBUTE_IDENTITIES_H
#define VT_ATTRIBUTE_IDENTITIES_H

#include "attribute/phases.h"

/* Once all labels are made. Fills the attribution's list of identities. A trace that lacks events, and an
 * optimizer that ran out of memory, are not checked. */
void vt_identities_check(struct vt_attribution *attribution, const struct vt_traits_by_stack *sites,
                         const struct vt_phases *phases, struct vt_label *labels);

#endif
