/* Which mount a file is on, without touching its file system, which may be dead.
 *
 * Threads: the recorder's own, with a descriptor table of their own. */
#ifndef VT_MOUNTS_H
#define VT_MOUNTS_H

#include <stdbool.h>

/* Whether both files are on one mount. Paths are absolute and without links. False if it is not known. */
bool vt_on_same_mount(const char *path, const char *other);

#endif
