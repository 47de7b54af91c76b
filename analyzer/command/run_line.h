/* The last line of `run`: what the traces show. */
#ifndef VT_COMMAND_RUN_LINE_H
#define VT_COMMAND_RUN_LINE_H

#include <stdbool.h>
#include <stdio.h>

#include <stddef.h>

struct vt_run_end;

struct vt_run_trace {
    int pid, of_job;
    const char *path;
};

/* Makes the list to which the recorders append, and its variable. A descriptor, or -errno. */
int vt_run_make_list(void);
/* A `run` around this one, with the same standard error, prints the line. */
bool vt_run_is_inner(void);
/* The command was not started, and a line said why: in the child. */
void vt_run_not_started(int list);
/* Prints the last line; `say`, if given, prints its own text instead if there are traces. */
typedef void vt_run_sayer(const struct vt_run_trace *traces, size_t count, const struct vt_run_end *end);
void vt_run_say(int list, const struct vt_run_end *end, vt_run_sayer *say);
/* What to read next, as the user would name it from here: the trace, or its folder with the slash. */
void vt_run_put_place(const char *path, bool folder, FILE *out);

#endif
