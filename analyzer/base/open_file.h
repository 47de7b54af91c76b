/* Opens files whose names come from elsewhere. */
#ifndef VT_OPEN_FILE_H
#define VT_OPEN_FILE_H

#include <sys/stat.h>

/* A descriptor to read the file, which is a regular one: nothing else is opened, since opening a device may
 * do something. Fills *status. -1 with errno if it cannot be read, or is none (EINVAL). */
int vt_open_regular(const char *path, struct stat *status);

#endif
