/* Looks for changes that make a program fit, and for the largest value that does. */
#ifndef VT_COMMAND_DRYRUN_SEARCH_H
#define VT_COMMAND_DRYRUN_SEARCH_H

#include "command/dryrun_table.h"

/* Tries what the findings of the first propose. What makes it fit, or needs least; NULL = nothing. */
const struct vt_trial *vt_search_advice(const struct vt_trial *first, char **words);
/* The largest value of an argument or of the loader's batch. The exit status. */
int vt_search_largest(const char *name, char **words, FILE *out);

#endif
