/* Dry runs of one command, each with other changes: what each needs, and which make it fit. */
#ifndef VT_COMMAND_DRYRUN_TRIALS_H
#define VT_COMMAND_DRYRUN_TRIALS_H

#include <stdio.h>

#include "command/dryrun_answer.h"
#include "command/run.h"

#define VT_CHANGES_BYTES 320

/* What is wanted besides the run itself. */
struct vt_trials {
    const char *changes[32]; /* each is one run; NULL ends them */
    bool advise;             /* try what the findings propose */
    const char *fit;         /* find the largest value of this, NULL = nothing */
    const char *json_path;   /* also as JSON into this file, NULL = no */
    /* In the child, before it runs; with a GPU of the size that is given or, if `ample`, a much larger one.
     */
    int (*begin)(bool ample);
};

bool vt_trials_are_wanted(const struct vt_trials *trials);
/* Takes another change; 0 or an exit status. */
int vt_trials_add(struct vt_trials *trials, const char *changes);
/* Runs the command, and then again for each trial, and prints on stderr what it found. The exit status is
 * that of the first run; of --fit, 0 if something fits. */
int vt_trials_run(const struct vt_trials *trials, const struct vt_runner *runner, char **words);
/* In the child of such a run, when it has ended: whether its answer is not to be printed; and notes it. */
bool vt_trials_say_nothing(void);
void vt_trials_note(const struct vt_dry_outcome *outcome, const char *rooms);

/* ---- Between dryrun_trials.c, dryrun_search.c and dryrun_table.c ---- */

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

/* Runs it; NULL: it could not, or the user stopped it. */
const struct vt_trial *vt_trial_with(const char *changes);
/* It ended with an error that is not an out of memory. */
bool vt_trial_failed(const struct vt_trial *trial);
bool vt_trial_fits(const struct vt_trial *trial);
/* Needs less than the first. */
bool vt_trial_saves(const struct vt_trial *trial, const struct vt_trial *first);
/* Tries what the findings of the first propose. What makes it fit, or needs least; NULL = nothing. */
const struct vt_trial *vt_search_advice(const struct vt_trial *first);
/* The largest value of an argument or of the loader's batch. The exit status. */
int vt_search_largest(const char *name, char **words, FILE *out);
void vt_put_trials(const struct vt_trial *trials, size_t count, const struct vt_trial *best, FILE *out);
/* 0 or -errno. */
int vt_put_trials_json(const struct vt_trial *trials, size_t count, const struct vt_trial *best, FILE *out);

#endif
