/* Growth of driver memory, beside that of blocks; and when memory will run out. */
#ifndef VT_FINDINGS_LEAKS_CACHE_H
#define VT_FINDINGS_LEAKS_CACHE_H

struct vt_leak_finder;

void vt_leak_cache_find(struct vt_leak_finder *finder);

#endif
