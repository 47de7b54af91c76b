/* The shim's settings: options.def, read from the environment when the library is loaded. Later no thread of ours may:
 * another may be changing it. */
#ifndef VT_OPTIONS_H
#define VT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_options {
    char out[4096];
    char rank[16]; /* the launcher's number of this process, "" if there is none */
    bool quiet, enable, native, python, inspect;
    uint64_t ring_bytes;
};

/* As read. A wrong value is replaced by its default. Any thread. */
const struct vt_options *vt_options(void);

/* Says on stderr, once, which value was wrong. Writer thread. */
void vt_options_complain(void);

/* Fills `path` from the pattern in options->out; `attempt` > 0 makes another name of it for the case that the
 * file exists. Returns 0, -ENAMETOOLONG, or -EINVAL where what it names is neither a folder nor a file. */
int vt_options_path(const struct vt_options *options, const char *host, int attempt, char *path, size_t bytes);

#endif
