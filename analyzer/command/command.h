/* The command line: its commands, its options, and what every command needs. */
#ifndef VT_COMMAND_H
#define VT_COMMAND_H

#include "attribute/attribute.h"
#include "diagnose/check.h"
#include "view/text/style.h"

#include <limits.h>
#include <stdio.h>

enum vt_exit {
    VT_EXIT_GOOD = 0,
    VT_EXIT_CHECK_FAILED = 1,
    VT_EXIT_WRONG_USE = 2,
    VT_EXIT_UNREADABLE = 3,
    VT_EXIT_NOT_WRITTEN = 4
};

/* What follows a command's options. WORDS: the command parses its own command line. TRACES and TWO: the
 * newest trace of the folder stands in for a missing one. */
enum vt_takes { VT_TAKES_WORDS, VT_TAKES_NOTHING, VT_TAKES_TRACES, VT_TAKES_TWO };

/* id, name, function, what it takes, arguments, what it does. */
#define VT_COMMANDS(X)                                                                                       \
    X(RUN, "run", vt_command_run, WORDS, "[OPTIONS] COMMAND...", "trace a command and exit with its status") \
    X(REPORT, "report", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                   \
      "the post-mortem: the peak, its contents, the code that allocated them")                               \
    X(TIMELINE, "timeline", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                               \
      "memory over time, as large as the terminal")                                                          \
    X(OOM, "oom", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                         \
      "out of memory: what was requested, what had filled the card")                                         \
    X(FRAG, "frag", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                       \
      "fragmentation: segments, their holes, the blocks that keep them")                                     \
    X(LEAKS, "leaks", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                     \
      "what grows with every step, why, and the line to check")                                              \
    X(STEPS, "steps", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                     \
      "one line per training step; steps that stand out")                                                    \
    X(DIFF, "diff", vt_command_diff, TWO, "[OPTIONS] A [B]",                                                 \
      "compare two runs, or two moments of one: what grew, what shrank")                                     \
    X(CHECK, "check", vt_command_check, TRACES, "[OPTIONS] [TRACE...]",                                      \
      "compare with limits, for CI: exit 1 and print what exceeds them")                                     \
    X(EXPORT, "export", vt_command_export, TRACES, "--format FORMAT [OPTIONS] [TRACE...]",                   \
      "the trace for other tools: Perfetto, pprof, speedscope, flame graphs")                                \
    X(INFO, "info", vt_command_info, TRACES, "[OPTIONS] [TRACE...]",                                         \
      "what a trace contains: process, devices, events, losses")                                             \
    X(LIB, "lib", vt_command_lib, NOTHING, "[OPTIONS]", "print the path of the preloaded library")           \
    X(HELP, "help", vt_command_help, WORDS, "[COMMAND]", "help for a command")
enum vt_command_id {
#define X(id, name, function, takes, words, summary) VT_COMMAND_##id,
    VT_COMMANDS(X)
#undef X
        VT_COMMAND_COUNT
};

enum vt_colour_choice { VT_COLOUR_AUTO, VT_COLOUR_ALWAYS, VT_COLOUR_NEVER, VT_COLOUR_CHOICES };

struct vt_arguments {
    int device, by, top, width, depth; /* -1, -1, 0, 0, 0 = not given */
    int colour;                        /* enum vt_colour_choice */
    const char *at, *rules, *explain, *output;
    bool json, events, stacks, verify, help;
    bool all;                /* steps */
    struct vt_limits limits; /* check */
    const char *baseline;
    const char *format, *export_path; /* export */
    int table;                        /* enum vt_table_id, -1 = all */
    char **operands;
    int operand_count;
    char *found_path, *found[2]; /* a trace that was not named (owned), and the operands with it */
};

/* Where a command prints. */
struct vt_output {
    FILE *stream;
    const char *path;         /* as given with -o; NULL = the standard output */
    char *target, *temporary; /* the file, and its name until it is complete; NULL = none */
    bool broken;              /* something is missing in it; nothing more is written */
};

struct vt_command {
    const char *name, *arguments, *summary;
    enum vt_takes takes;
    unsigned bit; /* 1u << enum vt_command_id */
};
extern const struct vt_command vt_commands[VT_COMMAND_COUNT];

/* Functions of commands return the exit status. For WORDS, `arguments` has all words as operands. */
#define X(id, name, function, takes, words, summary)                                                         \
    int function(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output);
VT_COMMANDS(X)
#undef X
void vt_print_run_help(const struct vt_command *command, FILE *out);

/* ---- output.c ---- */

/* One line on stderr, safe for a terminal: "vramtrace report: ...". `command` NULL = none yet. */
void vt_say(const struct vt_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ... and returns VT_EXIT_WRONG_USE. */
int vt_wrong_use(const struct vt_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Columns of the terminal that it is; else of COLUMNS, else 80. */
int vt_columns(FILE *out);
/* How to write there, from the arguments, the terminal and the environment. */
struct vt_view_style vt_style(const struct vt_arguments *arguments, const struct vt_output *output);

/* Opens the file of -o; NULL and "-" are the standard output. An exit status, with a line on stderr if it is
 * not 0. */
int vt_output_begin(const struct vt_command *command, const char *path, struct vt_output *output);
/* The exit status for a view's result (0 or -errno) and the stream's state, with a line on stderr. */
int vt_written(const struct vt_command *command, struct vt_output *output, int result);
/* Closes the output, also after a vt_output_begin that failed. The file gets its name if everything was
 * written; a command that failed (status above 1) and printed nothing leaves the old file. Returns the worse
 * of `status` and its own. */
int vt_output_end(const struct vt_command *command, struct vt_output *output, int status);

/* ---- folder.c ---- */

/* A folder that gets its name when everything in it is complete. */
struct vt_folder {
    const char *path; /* as given */
    char *temporary;  /* its name until then; NULL = none */
};

/* Makes an empty folder. An exit status, with a line on stderr if it is not 0: so if PATH is there and not an
 * empty folder. */
int vt_folder_begin(const struct vt_command *command, const char *path, struct vt_folder *folder);
/* Gives the folder its name if `status` is 0 and `result` (0 or -errno) too; else removes it, with a line on stderr
 * for `result`. The exit status. */
int vt_folder_end(const struct vt_command *command, struct vt_folder *folder, int status, int result);

/* ---- parquet.c ---- */

/* Turns the tables in FOLDER from CSV into Parquet, by a Python that has pyarrow. TRACE is the trace's path. An
 * exit status, with a line on stderr if it is not 0. */
int vt_parquet_convert(const struct vt_command *command, const char *folder, const char *trace);

/* ---- arguments.c ---- */

/* The command of that name, or NULL. */
const struct vt_command *vt_find_command(const char *name);
/* The candidate (NULL ends the list) nearest to `word`, or NULL if none is near. */
const char *vt_nearest(const char *word, const char *const *candidates);
/* Parses options and operands of `command` by options.def. VT_EXIT_WRONG_USE with a line on stderr; --help
 * sets `help` and ends parsing. */
int vt_parse_arguments(const struct vt_command *command, int argc, char **argv,
                       struct vt_arguments *arguments);
void vt_print_command_help(const struct vt_command *command, FILE *out);
void vt_print_help(FILE *out);

/* ---- traces.c ---- */

/* Where none is named: the newest vramtrace.*.vrt of the folder becomes the operand, and stderr says which.
 */
int vt_find_traces(const struct vt_command *command, struct vt_arguments *arguments);
/* TRACE or TRACE@MOMENT: the path, which the caller frees (NULL without memory), and the moment, NULL = none.
 * Files and marks may have an @ in their names: the longest beginning that is a file is the trace. If no file
 * matches, the path ends before the first @. */
char *vt_split_moment(const char *operand, const char **moment);

/* A trace with everything found out about it. */
struct vt_loaded {
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    struct vt_report *report; /* NULL = none was made */
};
/* VT_EXIT_UNREADABLE or, for a bad rules file, VT_EXIT_WRONG_USE, with a line on stderr. */
int vt_load(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
            struct vt_loaded *loaded);
/* ... and makes its report with the findings `wanted` (enum vt_finding). */
int vt_load_report(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                   const struct vt_report_options *options, unsigned wanted, struct vt_loaded *loaded);
void vt_unload(struct vt_loaded *loaded);
/* A report of a loaded trace; errors as vt_load, with `path` in the line. */
int vt_make_report(const struct vt_command *command, const char *path, const struct vt_loaded *loaded,
                   const struct vt_report_options *options, unsigned wanted, struct vt_report **report);

/* Runs a command on each operand, as long as the output can be written. Prints `separator` between them,
 * NULL = none. Returns the worst status. */
int vt_for_each_trace(const struct vt_command *command, const struct vt_arguments *arguments,
                      struct vt_output *output, const char *separator,
                      int (*run)(const struct vt_command *command, const struct vt_arguments *arguments,
                                 const char *path, struct vt_output *output));

#endif
