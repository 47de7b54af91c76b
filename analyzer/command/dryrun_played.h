/* dryrun --world: what was played, noted by the process that plays in a file of the run's folder, for the
 * answer. */
#ifndef VT_COMMAND_DRYRUN_PLAYED_H
#define VT_COMMAND_DRYRUN_PLAYED_H

#include <stddef.h>
#include <stdio.h>

enum vt_played {
    VT_PLAYED_RANK,      /* number: the rank */
    VT_PLAYED_UNEVEN,    /* the rank sends parts of several sizes: routing of experts */
    VT_PLAYED_MOST,      /* such a rank, which was taken to receive as much as it sends to any */
    VT_PLAYED_APART,     /* how many ranks were too many to be played side by side */
    VT_PLAYED_DIFFERENT, /* the rank does what one before it did, and needed another amount */
    VT_PLAYED_COUNT
};

void vt_played_note(const char *rooms, enum vt_played what, size_t number);
/* Lines of the answer. `rank`: the one that needs most; -1 = all need the same. */
void vt_played_say(const char *rooms, int size, int rank, FILE *out);

#endif
