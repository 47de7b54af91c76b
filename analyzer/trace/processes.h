/* Processes of this machine, from /proc. */
#ifndef VT_PROCESSES_H
#define VT_PROCESSES_H

#include <stdbool.h>
#include <stdint.h>

struct vt_process_identity;

/* Whether a recorded process still runs. Unknown: it ran on another machine, before a reboot, or in another
 * container. */
enum vt_life { VT_LIFE_UNKNOWN, VT_LIFE_RUNS, VT_LIFE_ENDED };
enum vt_life vt_process_life(const struct vt_process_identity *process);
/* The same for a process that is known to be of this machine and boot. */
bool vt_process_runs(const struct vt_process_identity *process);

/* The id of the user that runs it. 0 or -ESRCH. */
int vt_process_user(uint32_t pid, uint32_t *user_id);

/* Whether one of its user ids is this one. /proc/PID itself may belong to root. */
bool vt_process_has_user(uint32_t pid, uint32_t user_id);

/* Whether the word is its number, or that of the `vramtrace run` that waits for it. */
bool vt_process_is_meant(const char *word, uint32_t pid);

/* Its arguments joined by spaces; its name in brackets if it has none, "" if it is gone. The caller frees it.
 */
char *vt_process_command(uint32_t pid);

#endif
