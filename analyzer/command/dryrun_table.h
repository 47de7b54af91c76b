/* A trial of a dry run, and what several of them found: as a table and as JSON. */
#ifndef VT_COMMAND_DRYRUN_TABLE_H
#define VT_COMMAND_DRYRUN_TABLE_H

#include <stdio.h>

#include "command/dryrun_answer.h"

#define VT_CHANGES_BYTES 320

struct vt_trial {
    char changes[VT_CHANGES_BYTES]; /* "" = the program as it is: the first */
    struct vt_dry_outcome outcome;
    bool need_known;                   /* also where it ran out: then of a larger GPU */
    uint64_t used_bytes, needed_bytes; /* the peak in use; with all that is reserved */
    char note[240];                    /* changes that found nothing to change, or what became what */
    unsigned count;                    /* how many things were changed */
    int status;                        /* as of waitpid() */
    char last_line[160];               /* of the program, if it failed */
};

/* It ended with an error that is neither an out of memory nor the time limit. */
bool vt_trial_failed(const struct vt_trial *trial);
const char *vt_trial_failure(const struct vt_trial *trial); /* why, in words */
bool vt_trial_fits(const struct vt_trial *trial);
/* Needs less than the first. */
bool vt_trial_saves(const struct vt_trial *trial, const struct vt_trial *first);
/* Each has a row if `all`; else 12 lines at most. `best` = what is answered, NULL = none. */
void vt_put_trials(const struct vt_trial *trials, size_t count, const struct vt_trial *best, bool all,
                   FILE *out);
/* 0 or -errno. */
int vt_put_trials_json(const struct vt_trial *trials, size_t count, const struct vt_trial *best, FILE *out);

#endif
