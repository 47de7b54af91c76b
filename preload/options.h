/* The recorder's settings (options.def), read from the environment when the library is loaded: later another
 * thread may be changing the environment. */
#ifndef VT_OPTIONS_H
#define VT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "option_values.h"

struct vt_options {
    char out[4096];
    char rank[16];     /* this process's rank, as the launcher set it; "" = none */
    char launch[4096]; /* the variables of launch.def that are set: "NAME=value", each NUL-terminated */
    size_t launch_bytes;
    bool quiet, enable, native, python, inspect, nvml;
    uint64_t ring_bytes;
    uint64_t start_step;      /* stacks begin with this step; 1 = now, VT_START_MANUAL = on request */
    bool flight;              /* VRAMTRACE_MODE */
    uint64_t limit_bytes;     /* of the trace, 0 = none */
    bool ring_was_set;        /* the user has set VRAMTRACE_RING */
    char runtime_folder[200]; /* XDG_RUNTIME_DIR; "" = none */
    char run_list[64];        /* VT_RUN_VARIABLE (format.h); "" = none */
};

/* The settings, with wrong values replaced by their defaults. Any thread. */
const struct vt_options *vt_options(void);

/* Prints once on stderr which value was wrong, if one was. Writer thread. */
void vt_options_complain(void);

/* Fills `path` from the pattern in options->out. Each `attempt` > 0 gives another name, for when the file
 * exists already. Returns 0, -ENAMETOOLONG, or -EINVAL if the pattern names something that is neither a
 * folder nor a regular file. */
int vt_options_path(const struct vt_options *options, const char *host, int attempt, char *path,
                    size_t bytes);

#endif
