/* Pages of text, one for each trace, through a pager. */
#ifndef VT_COMMAND_PAGER_H
#define VT_COMMAND_PAGER_H

#include "command/output.h"

/* Before a text is printed, after the work: if it goes to a terminal, a pager prints it, if there is one and
 * none was refused. Where none can be run, nothing changes. */
void vt_pager_begin(const struct vt_arguments *arguments, struct vt_output *output);
/* After vt_output_end: waits until the user has left the pager. Returns `status`, or one of its own with a
 * line on stderr. */
int vt_pager_end(struct vt_output *output, int status);

/* Begins the page of a trace that could be read: the pager, and the separator after an earlier page. */
void vt_begin_page(const struct vt_arguments *arguments, struct vt_output *output);
/* Runs a command on each operand, as long as the output can be written. `separator` comes between the pages
 * that vt_begin_page begins, NULL = none. Returns the worst status. */
typedef int vt_trace_command(const struct vt_arguments *arguments, const char *path,
                             struct vt_output *output);
int vt_for_each_trace(const struct vt_arguments *arguments, struct vt_output *output, const char *separator,
                      vt_trace_command *run);

#endif
