/* Finds the part of the model that keeps a leak with a name of its own (a parameter). */
#ifndef VT_FINDINGS_LEAKS_OWNERS_H
#define VT_FINDINGS_LEAKS_OWNERS_H

struct vt_leak_finder;

void vt_leak_owners_find(struct vt_leak_finder *finder);

#endif
