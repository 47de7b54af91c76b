/* Processes of this machine, from /proc. */
#ifndef VT_PROCESSES_H
#define VT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

/* The id of the user that runs it. 0 or -ESRCH. */
int vt_process_user(uint32_t pid, uint32_t *user_id);

/* Whether the word is its number, or that of the `vramtrace run` that waits for it. */
bool vt_process_is_meant(const char *word, uint32_t pid);

/* Its arguments joined by spaces; its name in brackets if it has none, "" if it is gone. The caller frees it.
 */
char *vt_process_command(uint32_t pid);

#endif
