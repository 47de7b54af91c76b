/* Dry runs of one command, each with other changes: what each needs, and which make it fit. */
#ifndef VT_COMMAND_DRYRUN_TRIALS_H
#define VT_COMMAND_DRYRUN_TRIALS_H

#include <stdio.h>

#include "command/dryrun_table.h"
#include "command/run.h"

/* What is wanted besides the run itself. */
struct vt_trials {
    const char *changes[32]; /* each is one run; NULL ends them */
    const char *fit;         /* find the largest value of this, NULL = nothing */
    /* Tries what the findings of the first run propose; NULL = not wanted. */
    const struct vt_trial *(*advise)(const struct vt_trial *first, char **words);
    int (*search)(const char *fit, char **words, FILE *out); /* finds it: the exit status */
    const char *json_path;                                   /* also as JSON into this file, NULL = no */
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
void vt_trials_note(const struct vt_dry_outcome *outcome);

/* Runs it; NULL: it could not, or the user stopped it. */
const struct vt_trial *vt_trial_with(const char *changes);

#endif
