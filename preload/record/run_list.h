/* `vramtrace run` waits for the program and prints the last line itself: each recorder adds its trace to
 * run's list (format.h, VT_RUN_VARIABLE). Threads: the writer's, or one that could not start a writer. */
#ifndef VT_RUN_LIST_H
#define VT_RUN_LIST_H

#include <stdbool.h>

/* Adds this process's trace to the list; "" = there is none, and a line on stderr said why. `list` is the
 * value of the variable. `of_job`: the report should read the trace's folder, not the trace alone. False if
 * no `run` is waiting. */
bool vt_run_list_add(const char *list, const char *trace_path, bool of_job);

#endif
