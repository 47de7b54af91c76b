/* The options of run, which are the recorder's settings. */
#ifndef VT_COMMAND_RUN_H
#define VT_COMMAND_RUN_H

#include "command/arguments.h"

/* As vt_option_at. */
bool vt_run_option_at(size_t index, struct vt_option_text *text);
void vt_print_run_help(FILE *out);

#endif
