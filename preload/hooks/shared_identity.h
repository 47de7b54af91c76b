/* The identity of shared memory, the same in the process that exports it and in those that import it: a hash
 * of what they pass to each other, if that is the same on both sides. 0 = not known. Threads: any. */
#ifndef VT_SHARED_IDENTITY_H
#define VT_SHARED_IDENTITY_H

#include "hooks/driver.h"

/* `bytes` must be a multiple of 8. Never returns 0. */
uint64_t vt_identity_of_bytes(const void *handle, size_t bytes);

/* For cuMemExportToShareableHandle (`exported`: `shared` is where it wrote) or for the import; `shared` and
 * `type` as these functions take them. A descriptor is identified by its file, if that file is used for
 * nothing else. */
uint64_t vt_identity_of_handle(const void *shared, CUmemAllocationHandleType type, bool exported);

#endif
