/* The parts of `vramtrace run`. */
#ifndef VT_RUN_H
#define VT_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- run_python.c ---- */

/* Puts the interpreter before a script or -m MODULE: it takes the place of the word before, so there must be
 * one. NULL: no Python was found. */
char **vt_run_with_python(char **words);

/* ---- run_wait.c ---- */

struct vt_run_end {
    pid_t pid;
    int status;             /* as of waitpid() */
    uint32_t signal;        /* that ended it, as end_signal of a trace's header; 0 = it exited */
    uint64_t begin_real_ns; /* CLOCK_REALTIME, before it began */
};

/* Starts a child, in which it returns 0 with end->pid 0: it is to become the command. In the parent it
 * returns once the child has ended: until then signals that others send are passed on, and of its descriptors
 * it keeps the standard error and `keep`. -errno: there is no child. */
int vt_run_wait(int keep, struct vt_run_end *end);
/* The exit status for the parent; does not return if the child was killed: the parent dies of the same
 * signal. */
int vt_run_end_alike(const struct vt_run_end *end);

/* ---- run_line.c ---- */

/* Makes the list to which the recorders append, and its variable. A descriptor, or -errno. */
int vt_run_make_list(void);
/* A `run` around this one, with the same standard error, prints the line. */
bool vt_run_is_inner(void);
/* The command was not started, and a line said why: in the child. */
void vt_run_not_started(int list);
/* Prints the last line. */
void vt_run_say(int list, const struct vt_run_end *end);

#endif
