/* The last line of `run`: what the traces show. */
#ifndef VT_COMMAND_RUN_LINE_H
#define VT_COMMAND_RUN_LINE_H

#include <stdbool.h>

struct vt_run_end;

/* Makes the list to which the recorders append, and its variable. A descriptor, or -errno. */
int vt_run_make_list(void);
/* A `run` around this one, with the same standard error, prints the line. */
bool vt_run_is_inner(void);
/* The command was not started, and a line said why: in the child. */
void vt_run_not_started(int list);
/* Prints the last line. */
void vt_run_say(int list, const struct vt_run_end *end);

#endif
