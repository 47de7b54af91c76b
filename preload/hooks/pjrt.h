/* XLA's plugin: the host gets our copy of its table of functions. Threads: any. */
#ifndef VT_PJRT_H
#define VT_PJRT_H

#define VT_PJRT_ENTRY "GetPjrtApi"

/* What dlsym returns to the host instead of `found`, a plugin's function of that name. NULL stays NULL. */
void *vt_pjrt_entry(void *found);

#endif
