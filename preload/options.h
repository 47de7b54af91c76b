/* The shim's settings: options.def, read once from the environment. */
#ifndef VT_OPTIONS_H
#define VT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_options {
    const char *out; /* points into the environment or the table */
    bool quiet, enable, native, python, inspect;
    uint64_t ring_bytes;
};

/* Reads the environment. A wrong value is named on stderr once and its default is used. */
void vt_options_read(struct vt_options *options);

/* Fills `path` from the pattern in options->out; `attempt` > 0 makes another name of it for the case that the
 * file exists. Returns 0 or -ENAMETOOLONG. */
int vt_options_path(const struct vt_options *options, const char *host, int attempt, char *path, size_t bytes);

#endif
