/* The folder of a dry run, in which its processes meet. */
#ifndef VT_COMMAND_ROOMS_H
#define VT_COMMAND_ROOMS_H

#include <stdbool.h>
#include <stddef.h>

/* Makes it in /dev/shm, else in /tmp; it is this process's until it ends or executes another program. Removes
 * the folders of this user whose process is gone. False with errno: there is none. */
bool vt_rooms_make(char *name, size_t bytes);

#endif
