/* Changes to a program that a dry run applies from outside. As text: NAME, NAME=VALUE or NAME:VALUE, apart by
 * commas. */
#ifndef VT_COMMAND_DRYRUN_CHANGES_H
#define VT_COMMAND_DRYRUN_CHANGES_H

#include <stdio.h>

/* 0, or a line was said and the exit status is returned. */
int vt_check_changes(const char *changes);
/* Applies them to this process: its environment, and the command's words, of which it returns a copy. Once;
 * what it allocates stays. */
char **vt_apply_changes(const char *changes, char **words);
/* What one of them costs, "" = nothing that is known. */
const char *vt_cost_of_change(const char *change);
/* The argument of this name among the words, or NULL: the value is behind it, or the next word. */
char **vt_find_argument(char **words, const char *name);
/* The change that divides the words' argument of the batch size by `part`; NULL = they have none. The caller
 * frees it. */
char *vt_batch_argument(char **words, unsigned part);
void vt_print_changes(FILE *out);

#endif
