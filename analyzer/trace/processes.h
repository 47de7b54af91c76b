/* Processes of this machine, as /proc tells. */
#ifndef VT_PROCESSES_H
#define VT_PROCESSES_H

#include <stdint.h>

/* The number of the user that it runs as. 0 or -ESRCH. */
int vt_process_user(uint32_t pid, uint32_t *user_id);

/* Its arguments joined by spaces; its name in brackets if it has none, "" if it is gone. The caller frees it;
 * NULL without memory. */
char *vt_process_command(uint32_t pid);

#endif
