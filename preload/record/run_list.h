/* `vramtrace run` waits for the program and prints the last line itself (format.h, VT_RUN_VARIABLE). Threads:
 * the writer's, or one that could not start it. */
#ifndef VT_RUN_LIST_H
#define VT_RUN_LIST_H

#include <stdbool.h>

/* Tells `run` about this process's trace; "": there is none, and a line on stderr says why. `list` is the
 * value of the variable, `of_job`: the folder is to be read, not the trace alone. False if nobody waits. */
bool vt_run_list_add(const char *list, const char *trace_path, bool of_job);

#endif
