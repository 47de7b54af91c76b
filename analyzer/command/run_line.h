/* The last line of `run`: what the traces show. */
#ifndef VT_COMMAND_RUN_LINE_H
#define VT_COMMAND_RUN_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct vt_run_end;
struct vt_run_trace;

/* Prints the last line; `say`, if given, prints its own text instead if there are traces. */
typedef void vt_run_sayer(const struct vt_run_trace *traces, size_t count, const struct vt_run_end *end);
void vt_run_say(int list, const struct vt_run_end *end, vt_run_sayer *say);
/* What to read next, as the user would name it from here: the trace, or its folder with the slash. */
void vt_run_put_place(const char *path, bool folder, FILE *out);

#endif
