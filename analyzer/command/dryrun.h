/* A dry run: the command under a simulated CUDA, to learn what memory it would need. */
#ifndef VT_COMMAND_DRYRUN_H
#define VT_COMMAND_DRYRUN_H

#include "command/arguments.h"

/* dryrun's own options, then those of run; as vt_option_at. */
bool vt_dryrun_option_at(size_t index, struct vt_option_text *text);
void vt_print_dryrun_help(FILE *out);

#endif
