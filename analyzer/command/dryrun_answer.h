/* What a dry run says at its end. */
#ifndef VT_COMMAND_DRYRUN_ANSWER_H
#define VT_COMMAND_DRYRUN_ANSWER_H

#include <stddef.h>

#include "command/run_line.h"

struct vt_gpu {
    const char *key, *name;
    int memory_mib, context_mib;
};

/* Prints on stderr whether it fits, how much is needed, what holds it and what would help. `count` traces, of
 * one GPU each. */
void vt_dryrun_answer(const struct vt_gpu *gpu, const struct vt_run_trace *traces, size_t count,
                      const struct vt_run_end *end);

#endif
