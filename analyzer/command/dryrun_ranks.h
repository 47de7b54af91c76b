/* dryrun --world: sets of ranks, and what a rank noted while it was played (a file of simulate/nccl.c): its
 * groups, and whom it sends letters to. */
#ifndef VT_COMMAND_DRYRUN_RANKS_H
#define VT_COMMAND_DRYRUN_RANKS_H

#include <stdbool.h>
#include <stddef.h>

/* The caller frees items. */
struct vt_ranks {
    int *items;
    size_t count;
};

bool vt_ranks_has(const struct vt_ranks *ranks, int rank);
void vt_ranks_add(struct vt_ranks *ranks, int rank); /* once */
void vt_ranks_remove(struct vt_ranks *ranks, const struct vt_ranks *others);

struct vt_rank_notes {
    struct vt_ranks *groups; /* that the rank is in */
    size_t group_count;
    struct vt_ranks neighbors; /* it sends letters to, or has some from */
    bool reads_letters;        /* small ones: sizes, say */
    struct vt_ranks roots;     /* that broadcast whole numbers to it, and were not played before */
    bool is_uneven;            /* it sends parts of several sizes: routing of experts */
    bool compiled;             /* kernels that were not in the cache of torch.compile */
};

struct vt_rank_notes vt_rank_notes_read(const char *rooms, int play, int rank);
void vt_rank_notes_free(struct vt_rank_notes *notes);
/* Adds the rank, its neighbors, and the groups that it has in common with them. */
void vt_rank_notes_company(const struct vt_rank_notes *notes, int rank, struct vt_ranks *company);

#endif
