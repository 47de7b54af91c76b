/* Finds which Python name holds each leak. */
#ifndef VT_FINDINGS_LEAKS_HOLDERS_H
#define VT_FINDINGS_LEAKS_HOLDERS_H

struct vt_leak_finder;

void vt_leak_holders_find(struct vt_leak_finder *finder);

#endif
