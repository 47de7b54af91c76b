/* What tells shared memory from all other, in the process that exports it as in those that import it: a hash
 * of what they hand to each other, where that is the same for both. 0 = not known. Threads: any. */
#ifndef VT_SHARED_IDENTITY_H
#define VT_SHARED_IDENTITY_H

#include "hooks/driver.h"

/* `bytes`: a multiple of 8. Never 0. */
uint64_t vt_identity_of_bytes(const void *handle, size_t bytes);

/* After cuMemExportToShareableHandle (`exported`: where it has written), or for its import: as these take
 * it. A descriptor is known by its file, if that file is its alone. */
uint64_t vt_identity_of_handle(const void *shared, CUmemAllocationHandleType type, bool exported);

#endif
