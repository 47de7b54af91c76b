/* Starts the traced command, and waits for it. */
#ifndef VT_COMMAND_RUN_WAIT_H
#define VT_COMMAND_RUN_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vt_run_end {
    pid_t pid;
    int status;             /* as of waitpid() */
    uint32_t signal;        /* that ended it, as end_signal of a trace's header; 0 = it exited */
    uint64_t begin_real_ns; /* CLOCK_REALTIME, before it began */
    unsigned limit_s;       /* given: the command gets SIGTERM then, and SIGKILL a little later, as
                                what it started; 0 = none */
    bool timed_out;
};

/* Starts a child, in which it returns 0 with end->pid 0: it is to become the command. In the parent it
 * returns once the child has ended: until then signals that others send are passed on, and of its descriptors
 * it keeps the standard error and `keep`. -errno: there is no child. */
int vt_run_wait(int keep, struct vt_run_end *end);
/* The exit status for the parent; does not return if the child was killed: the parent dies of the same
 * signal. */
int vt_run_end_alike(const struct vt_run_end *end);

#endif
