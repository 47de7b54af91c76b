/* Finds what was freed only when the garbage collector ran. */
#ifndef VT_FINDINGS_LEAKS_CYCLES_H
#define VT_FINDINGS_LEAKS_CYCLES_H

struct vt_leak_finder;

void vt_leak_cycles_find(struct vt_leak_finder *finder);

#endif
