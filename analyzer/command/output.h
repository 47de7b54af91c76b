/* What a command says, and where it writes: to standard output, or to the file or folder of -o. */
#ifndef VT_COMMAND_OUTPUT_H
#define VT_COMMAND_OUTPUT_H

#include "base/allocate.h"
#include "command/arguments.h"
#include "view/text/style.h"

/* Where a command prints. */
struct vt_output {
    FILE *stream;
    const char *path;         /* as given with -o; NULL = the standard output */
    char *target, *temporary; /* the file, and its name until it is complete; NULL = none */
    bool paged;               /* the stream is a pipe to the pager, on the terminal that stdout is */
    bool broken;              /* something is missing in it; nothing more is written */
    const char *separator;    /* between the pages of several traces; NULL = none */
    bool has_page;            /* one was begun */
};

/* The command that says what follows; NULL = none yet, or for all of them. */
void vt_say_as(const struct vt_command *command);
/* One line on stderr, safe for a terminal: vt_say("%s", text) → "vramtrace report: ...". */
#define vt_say(...) vt_say_text(vt_print_text(__VA_ARGS__))
/* Frees `text`. */
void vt_say_text(char *text);
/* The same, and returns VT_EXIT_WRONG_USE. */
#define vt_wrong_use(...) (vt_say(__VA_ARGS__), (int)VT_EXIT_WRONG_USE)

/* The width of `out` if it is a terminal, else COLUMNS, else 80. */
int vt_columns(FILE *out);
/* How to write there, from the arguments, the terminal and the environment. */
struct vt_view_style vt_style(const struct vt_arguments *arguments, const struct vt_output *output);

/* Opens the file of -o; NULL and "-" are the standard output. An exit status, with a line on stderr if it is
 * not 0. */
int vt_output_begin(const char *path, struct vt_output *output);
/* The exit status for a view's result (0 or -errno) and the stream's state, with a line on stderr. */
int vt_written(struct vt_output *output, int result);
/* Closes the output, also after a vt_output_begin that failed. The file gets its name if everything was
 * written; a command that failed (status above 1) and printed nothing leaves the old file. Returns the worse
 * of `status` and its own. */
int vt_output_end(struct vt_output *output, int status);

/* A folder that gets its name when everything in it is complete. */
struct vt_folder {
    const char *path; /* as given */
    char *temporary;  /* its name until then; NULL = none */
};
/* Makes an empty folder. An exit status, with a line on stderr if it is not 0, as when PATH exists and is not
 * an empty folder. */
int vt_folder_begin(const char *path, struct vt_folder *folder);
/* Gives the folder its name if `status` and `result` (0 or -errno) are 0; else removes it, with a line on
 * stderr for `result`. The exit status. */
int vt_folder_end(struct vt_folder *folder, int status, int result);

#endif
