/* XLA's plugin: the host gets our copy of its function table. Threads: any. */
#ifndef VT_PJRT_H
#define VT_PJRT_H

#define VT_PJRT_ENTRY "GetPjrtApi"

/* What the host gets from dlsym instead of `found`, a plugin's function of that name; NULL stays NULL. */
void *vt_pjrt_entry(void *found);

#endif
