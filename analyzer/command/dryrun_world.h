/* dryrun --world: a job of N processes on one machine. A process plays one of its ranks, as if the others
 * were there; several are played one after the other, or side by side where what they send to each other has
 * to travel. */
#ifndef VT_COMMAND_DRYRUN_WORLD_H
#define VT_COMMAND_DRYRUN_WORLD_H

#include <stdbool.h>
#include <stdio.h>

/* Values of --world and --rank. 0, or a wrong use that was said. */
int vt_world_set_size(const char *text);
int vt_world_set_ranks(const char *text);
bool vt_world_is_given(void);
/* What all ranks have in their environment. `rooms`: the run's folder. A count of GPUs of 0 becomes that of a
 * host. */
int vt_world_prepare(const char *rooms, int *gpu_count);
/* Plays the ranks, in a process of its own: an exit status. */
int vt_world_play(char **words);
/* Lines of the answer. `rank`: the one that needs most; -1 = all need the same. */
void vt_world_say(int rank, FILE *out);
void vt_world_remove(void);

#endif
