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

/* What stands after a command's options. WORDS: it parses its own command line. TRACES and TWO: what is
 * missing is the newest trace of the folder. */
enum vt_takes { VT_TAKES_WORDS, VT_TAKES_NOTHING, VT_TAKES_TRACES, VT_TAKES_TWO };

/* id, name, function, what it takes, arguments, what it does. */
#define VT_COMMANDS(X)                                                                                       \
    X(RUN, "run", vt_command_run, WORDS, "[OPTIONS] COMMAND...", "trace a command and exit with its status") \
    X(REPORT, "report", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                   \
      "the post-mortem: the peak, what filled it, who made it")                                              \
    X(TIMELINE, "timeline", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                             \
      "memory over time, as large as the terminal")                                                          \
    X(OOM, "oom", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                            \
      "out of memory: what was asked, what had filled the card")                                             \
    X(FRAG, "frag", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                         \
      "fragmentation: segments, their holes, what keeps them")                                               \
    X(LEAKS, "leaks", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                      \
      "what grows with every step, why, and the line to look at")                                            \
    X(STEPS, "steps", vt_command_report, TRACES, "[OPTIONS] [TRACE...]",                                      \
      "a line for each training step; those that stand out")                                                 \
    X(DIFF, "diff", vt_command_diff, TWO, "[OPTIONS] A [B]",                                                 \
      "two runs, or two moments of one: what grew, what shrank")                                             \
    X(CHECK, "check", vt_command_check, TRACES, "[OPTIONS] [TRACE...]",                                      \
      "against limits, for CI: exit 1 and say what is over")                                                 \
    X(INFO, "info", vt_command_info, TRACES, "[OPTIONS] [TRACE...]",                                         \
      "what is in a trace: process, devices, events, losses")                                                \
    X(LIB, "lib", vt_command_lib, NOTHING, "[OPTIONS]", "print the path of the library that is preloaded")   \
    X(HELP, "help", vt_command_help, WORDS, "[COMMAND]", "help for a command")
enum vt_command_id {
#define X(id, name, function, takes, arguments, summary) VT_COMMAND_##id,
    VT_COMMANDS(X)
#undef X
        VT_COMMAND_COUNT
};

enum vt_colour_choice { VT_COLOUR_AUTO, VT_COLOUR_ALWAYS, VT_COLOUR_NEVER };

struct vt_arguments {
    int device, by, top, width, depth; /* -1, -1, 0, 0, 0 = not given */
    enum vt_colour_choice colour;
    const char *at, *rules, *explain, *output;
    bool json, events, stacks, verify, help;
    bool all;                /* steps */
    struct vt_limits limits; /* check */
    const char *baseline;
    char **operands;
    int operand_count;
    char *found_path, *found[2]; /* a trace that was not named (owned), and the operands with it */
};

/* Where a command prints. */
struct vt_output {
    FILE *stream;
    const char *path;         /* as given with -o; NULL = the standard output */
    char *target, *temporary; /* the file, and what it is called until it is whole; NULL = none */
    bool broken;              /* something is missing in it; nothing more is written */
};

struct vt_command {
    const char *name, *arguments, *summary;
    enum vt_takes takes;
    /* The exit status. For WORDS, `arguments` has all words as operands, and the command writes as it likes.
     */
    int (*run)(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output);
    unsigned bit; /* in the option table */
};
extern const struct vt_command vt_commands[VT_COMMAND_COUNT];

/* The command of that name, or NULL. */
const struct vt_command *vt_find_command(const char *name);
/* One line on stderr, safe for a terminal: "vramtrace report: ...". `command` NULL = none yet. */
void vt_say(const struct vt_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* ... and returns VT_EXIT_WRONG_USE. */
int vt_wrong_use(const struct vt_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The candidate (NULL ends the list) that `word` is nearest to, or NULL if none is near. */
const char *vt_nearest(const char *word, const char *const *candidates);

/* Parses options and operands of `command` by the option table. VT_EXIT_WRONG_USE with a line on stderr; with
 * --help sets `help` and looks no further. */
int vt_parse_arguments(const struct vt_command *command, int argc, char **argv,
                       struct vt_arguments *arguments);
void vt_print_command_help(const struct vt_command *command, FILE *out);
void vt_print_help(FILE *out);

/* A trace with everything found out about it. */
struct vt_loaded {
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
};
/* VT_EXIT_UNREADABLE or, for a bad rules file, VT_EXIT_WRONG_USE, with a line on stderr. */
int vt_load(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
            struct vt_loaded *loaded);
void vt_unload(struct vt_loaded *loaded);
/* Of a trace that is loaded, with the findings that are wanted (enum vt_finding); what is wrong is said of `path`
 * on stderr: VT_EXIT_WRONG_USE, VT_EXIT_UNREADABLE. */
int vt_make_report(const struct vt_command *command, const char *path, const struct vt_loaded *loaded,
                   const struct vt_report_options *options, unsigned wanted, struct vt_report **report);

/* Where none is named: the newest vramtrace.*.vrt of the folder becomes the operand, and stderr says which.
 */
int vt_find_traces(const struct vt_command *command, struct vt_arguments *arguments);
/* TRACE or TRACE@MOMENT: the path, which the caller frees (NULL without memory), and the moment, NULL = none.
 * Files and marks may have an @ in their names: the longest beginning that is a file is the trace. Without
 * any, the operand is what is missed, up to its first @ that a moment could follow. */
char *vt_split_moment(const char *operand, const char **moment);
/* A line on stderr if there is a newer trace of that name: a recorder whose "x.vrt" is taken writes
 * "x.1.vrt". */
void vt_warn_of_newer(const struct vt_command *command, const struct vt_arguments *arguments,
                      const char *path);

/* Columns of the terminal that it is; else of COLUMNS, else 80. */
int vt_columns(FILE *out);
/* How to write there, from the arguments, the terminal and the environment. */
struct vt_view_style vt_style(const struct vt_arguments *arguments, const struct vt_output *output);

/* Opens what -o names; NULL and "-" are the standard output. An exit status, with a line on stderr if it is
 * not 0. */
int vt_output_begin(const struct vt_command *command, const char *path, struct vt_output *output);
/* What a view gave (0 or -errno) and what writing gave, as an exit status, with a line on stderr. */
int vt_written(const struct vt_command *command, struct vt_output *output, int result);
/* Ends it, also after a vt_output_begin that failed. A file takes its name if all that was printed is in it;
 * a command that failed (status above 1) and printed nothing leaves what was there. Returns the worse of
 * `status` and its own. */
int vt_output_end(const struct vt_command *command, struct vt_output *output, int status);

/* Path of libvramtrace.so (the caller frees it), or NULL with a line in `error`. */
char *vt_library_path(char *error, size_t error_bytes);

int vt_command_run(const struct vt_command *command, struct vt_arguments *arguments,
                   struct vt_output *output);
/* report, timeline, oom, frag, leaks, steps. */
int vt_command_report(const struct vt_command *command, struct vt_arguments *arguments,
                      struct vt_output *output);
int vt_command_diff(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output);
int vt_command_check(const struct vt_command *command, struct vt_arguments *arguments,
                     struct vt_output *output);
int vt_command_info(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output);
int vt_command_lib(const struct vt_command *command, struct vt_arguments *arguments,
                   struct vt_output *output);
int vt_command_help(const struct vt_command *command, struct vt_arguments *arguments,
                    struct vt_output *output);
void vt_print_run_help(const struct vt_command *command, FILE *out);

#endif
