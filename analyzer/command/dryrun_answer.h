/* What a dry run says at its end. */
#ifndef VT_COMMAND_DRYRUN_ANSWER_H
#define VT_COMMAND_DRYRUN_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "command/run_line.h"

struct vt_gpu {
    const char *key, *name;
    int memory_mib, context_mib;
};

#define VT_PROPOSALS 8u

/* Of the GPU that needs most. Has no pointers: it is passed between processes. */
struct vt_dry_outcome {
    bool told, ran_out, timed_out;
    uint64_t used_bytes, needed_bytes, total_bytes; /* at most: in use, and with all that is reserved */
    uint64_t pool_tokens, longest;     /* of a server: in its pool, and of a request at most; 0 = not known */
    char reason[512];                  /* if it failed: the exception that ended it first; "" = not known */
    char obstacle[160];                /* if it ran out: what was asked for, and what was there */
    char proposals[VT_PROPOSALS][160]; /* changes that its findings propose, "" = none more */
};

/* Prints on stderr whether it fits, how much is needed, what holds it and what would help, if `out` is not
 * NULL. `count` traces, of one GPU each. */
struct vt_dry_outcome vt_dryrun_answer(const struct vt_gpu *gpu, const struct vt_run_trace *traces,
                                       size_t count, const struct vt_run_end *end, FILE *out);

#endif
