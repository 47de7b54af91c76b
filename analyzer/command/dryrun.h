/* A dry run: the command under a simulated CUDA, to learn what memory it would need. */
#ifndef VT_COMMAND_DRYRUN_H
#define VT_COMMAND_DRYRUN_H

#include "command/arguments.h"
#include "command/run_line.h"

struct vt_gpu {
    const char *key, *name;
    int memory_mib, context_mib;
};

/* dryrun's own options, then those of run; as vt_option_at. */
bool vt_dryrun_option_at(size_t index, struct vt_option_text *text);
void vt_print_dryrun_help(FILE *out);

/* Prints on stderr whether it fits, how much is needed, what holds it and what would help. `count` traces, of
 * one GPU each. */
void vt_dryrun_answer(const struct vt_gpu *gpu, const struct vt_run_trace *traces, size_t count,
                      const struct vt_run_end *end);

#endif
