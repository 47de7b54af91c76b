/* What the simulation does not know, told by a mark in the trace of the process that asked for it; the answer
 * of `vramtrace dryrun` reads it. Threads: any. */
#ifndef STANDIN_LACKS_H
#define STANDIN_LACKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../include/vramtrace/api.h"

#define LACKS "not simulated: " /* as in analyzer/command/dryrun_answer.c, which knows "dry run: ", too */

/* Whether a dry run loaded this library. Asked once: later a host's threads may change the environment. */
static bool standin_in_dryrun;

__attribute__((constructor)) static void look_for_dryrun(void)
{
    standin_in_dryrun = getenv("VRAMTRACE_STANDIN_MARK") != NULL;
}

/* Each time: what is counted. */
#define STANDIN_LACKS(what) (standin_in_dryrun ? VRAMTRACE_MARK(LACKS what) : 0)

#define STANDIN_LACKS_ONCE(what)                                                                             \
    do {                                                                                                     \
        static atomic_flag told = ATOMIC_FLAG_INIT;                                                          \
        if (!atomic_flag_test_and_set(&told))                                                                \
            (void)STANDIN_LACKS(what);                                                                       \
    } while (0)

#endif
