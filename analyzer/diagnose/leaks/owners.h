/* For what has a name of its own (a parameter), the part of the model that keeps it. */
#ifndef VT_DIAGNOSE_LEAKS_OWNERS_H
#define VT_DIAGNOSE_LEAKS_OWNERS_H

struct vt_leak_finder;

void vt_leak_owners_find(struct vt_leak_finder *finder);

#endif
