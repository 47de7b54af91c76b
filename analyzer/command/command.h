/* The command line: its commands, its options, and what every command needs. */
#ifndef VT_COMMAND_H
#define VT_COMMAND_H

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/exit_status.h"
#include "diagnose/check.h"
#include "trace/survey.h"
#include "view/text/style.h"
#include "vramtrace/ring.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>

/* What follows a command's options. WORDS: the command parses its own command line. TRACES (a folder stands
 * for the traces in it), JOB (traces and folders as a whole), TWO and FILE (a trace and a source file): the
 * newest trace of the folder stands in for a missing one. PATHS: traces and folders. */
enum vt_takes {
    VT_TAKES_WORDS,
    VT_TAKES_NOTHING,
    VT_TAKES_TRACES,
    VT_TAKES_JOB,
    VT_TAKES_TWO,
    VT_TAKES_FILE,
    VT_TAKES_PATHS
};

/* As help shows the commands: one group after the other. */
#define VT_COMMAND_GROUPS(X)                                                                                 \
    X(RECORD, "Record") X(LOOK, "Look") X(COMPARE, "Compare") X(INTEGRATE, "Integrate")
enum vt_command_group {
#define X(id, title) VT_GROUP_##id,
    VT_COMMAND_GROUPS(X)
#undef X
};

/* id, group, name, function, what it takes, arguments, what it does: in help, one line of 80 columns. */
#define VT_COMMANDS(X)                                                                                       \
    X(RUN, RECORD, "run", vt_command_run, WORDS, "[OPTIONS] COMMAND...",                                     \
      "run a command and record its GPU memory use")                                                         \
    X(TOP, RECORD, "top", vt_command_top, PATHS, "[OPTIONS] [PID|DIR...]",                                   \
      "live view of recorded processes, per GPU")                                                            \
    X(CTL, RECORD, "ctl", vt_command_ctl, PATHS, "[PID|TRACE start|stop|mark|inspect|snapshot [WORD]]",      \
      "control recording in a running process")                                                              \
    X(LIB, RECORD, "lib", vt_command_lib, NOTHING, "[OPTIONS]", "print the path of libvramtrace.so")         \
    X(REPORT, LOOK, "report", vt_command_job, JOB, "[OPTIONS] [TRACE|FOLDER...]",                            \
      "show the peak, what it was made of, who allocated it")                                                \
    X(LIST, LOOK, "list", vt_command_list, PATHS, "[OPTIONS] [TRACE|FOLDER...]",                             \
      "list the traces here, with outcome and peak")                                                         \
    X(OOM, LOOK, "oom", vt_command_job, JOB, "[OPTIONS] [TRACE|FOLDER...]",                                  \
      "explain an out-of-memory error")                                                                      \
    X(LEAKS, LOOK, "leaks", vt_command_report, TRACES, "[OPTIONS] [TRACE|FOLDER...]",                        \
      "find memory that grows every step, and the line")                                                     \
    X(FRAG, LOOK, "frag", vt_command_report, TRACES, "[OPTIONS] [TRACE|FOLDER...]",                          \
      "show fragmentation: segments, holes, what pins them")                                                 \
    X(STEPS, LOOK, "steps", vt_command_report, TRACES, "[OPTIONS] [TRACE|FOLDER...]",                        \
      "list training steps; highlight outliers")                                                             \
    X(TIMELINE, LOOK, "timeline", vt_command_report, TRACES, "[OPTIONS] [TRACE|FOLDER...]",                  \
      "draw memory over time")                                                                               \
    X(ANNOTATE, LOOK, "annotate", vt_command_annotate, FILE, "[OPTIONS] [TRACE] [FILE]",                     \
      "show source code with the memory of each line")                                                       \
    X(HTML, LOOK, "html", vt_command_html, JOB, "[OPTIONS] [TRACE|FOLDER...]",                               \
      "write an interactive HTML page")                                                                      \
    X(INFO, LOOK, "info", vt_command_info, TRACES, "[OPTIONS] [TRACE|FOLDER...]",                            \
      "show process, devices, events and losses of a trace")                                                 \
    X(DIFF, COMPARE, "diff", vt_command_diff, TWO, "[OPTIONS] A [B]",                                        \
      "compare two runs, or two moments of one run")                                                         \
    X(CHECK, COMPARE, "check", vt_command_check, TRACES, "[OPTIONS] [TRACE|FOLDER...]",                      \
      "check against limits or a baseline, for CI")                                                          \
    X(EXPORT, INTEGRATE, "export", vt_command_export, TRACES, "--format FORMAT [OPTIONS] [TRACE|FOLDER...]", \
      "export to Perfetto, pprof, flame graphs or SQL")                                                      \
    X(MCP, INTEGRATE, "mcp", vt_command_mcp, PATHS, "[OPTIONS] [TRACE|FOLDER...]",                           \
      "MCP server: let an AI assistant query traces")                                                        \
    X(COMPLETIONS, INTEGRATE, "completions", vt_command_completions, WORDS, "SHELL",                         \
      "print a completion script for bash, zsh or fish")                                                     \
    X(HELP, INTEGRATE, "help", vt_command_help, WORDS, "[COMMAND]", "help for a command")
/* Letters that stand for options, the same in every command. */
#define VT_LETTERS(X) X('h', "--help") X('n', "--top") X('o', "--out") X('t', "--at")
enum vt_command_id {
#define X(id, group, name, function, takes, words, summary) VT_COMMAND_##id,
    VT_COMMANDS(X)
#undef X
        VT_COMMAND_COUNT
};

enum vt_check_format { VT_CHECK_TEXT, VT_CHECK_JSON, VT_CHECK_GITHUB, VT_CHECK_JUNIT, VT_CHECK_FORMATS };
enum vt_colour_choice { VT_COLOUR_AUTO, VT_COLOUR_ALWAYS, VT_COLOUR_NEVER, VT_COLOUR_CHOICES };

struct vt_arguments {
    int device, by, axis, top, width, depth; /* -1, -1, -1, 0, 0, 0 = not given */
    int colour;                              /* enum vt_colour_choice */
    const char *at, *from, *to, *rules, *explain, *output, *title;
    bool json, events, stacks, verify, help, diff, no_pager;
    bool all; /* steps, annotate */
    bool all_events;
    bool each;               /* several traces are not merged */
    bool open;               /* html */
    struct vt_limits limits; /* check */
    int check_format;        /* enum vt_check_format */
    const char *baseline;
    const char *format, *export_path; /* export; export_path: also top */
    bool once, prometheus;            /* top */
    int interval, count, sort;        /* top: seconds, samples, enum vt_top_key; 0, 0, -1 = not given */
    int table;                        /* enum vt_table_id, -1 = all */
    bool summary;                     /* report, export */
    bool brief;                       /* text for an assistant, with its data if `json` */
    char **operands;
    int operand_count;
    char *found_path, *found[2]; /* a trace that was not named (owned), and the operands with it */
};

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

struct vt_command {
    const char *name, *arguments, *summary;
    enum vt_command_group group;
    enum vt_takes takes;
    unsigned bit; /* 1u << enum vt_command_id */
};
extern const struct vt_command vt_commands[VT_COMMAND_COUNT];

/* Functions of commands return the exit status. For WORDS, `arguments` has all words as operands. */
#define X(id, group, name, function, takes, words, summary)                                                  \
    int function(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output);
VT_COMMANDS(X)
#undef X
void vt_print_run_help(const struct vt_command *command, FILE *out);

/* ---- output.c ---- */

/* One line on stderr, safe for a terminal: vt_say(command, "%s", text) → "vramtrace report: ...". `command`
 * NULL = none yet. */
#define vt_say(command, ...) vt_say_text(command, vt_print_text(__VA_ARGS__))
/* Frees `text`. */
void vt_say_text(const struct vt_command *command, char *text);
/* The same, and returns VT_EXIT_WRONG_USE. */
#define vt_wrong_use(command, ...) (vt_say(command, __VA_ARGS__), (int)VT_EXIT_WRONG_USE)

/* The width of `out` if it is a terminal, else COLUMNS, else 80. */
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

/* ---- temporary.c ---- */

/* Makes a file or a folder whose NAME ends in XXXXXX, which is replaced. NAME must live until it is kept or
 * removed; one at a time. Returns the file's descriptor, 0 for a folder, -1 with errno. */
int vt_temporary_make(char *name, bool folder);
/* Runs a program that writes there; a signal that ends us also ends it. 0 with its waitpid() status, or an
 * errno. */
int vt_temporary_run(char *const arguments[], int *status);
/* Gives it its name. 0 or an errno; then it is still there. */
int vt_temporary_keep(const char *target);
/* Removes it, a folder with its files, unless it was kept. */
void vt_temporary_remove(void);

/* ---- progress.c ---- */

/* From here on a terminal shows the progress (base/progress.h) of work that takes over a second. `new_trace`:
 * the clock starts again. */
void vt_progress_begin(bool new_trace);
/* Erases it. */
void vt_progress_end(void);

/* ---- pager.c ---- */

/* Before a text is printed, after the work: if it goes to a terminal, a pager prints it, if there is one and
 * none was refused. Where none can be run, nothing changes. */
void vt_pager_begin(const struct vt_command *command, const struct vt_arguments *arguments,
                    struct vt_output *output);
/* After vt_output_end: waits until the user has left the pager. Returns `status`, or one of its own with a
 * line on stderr. */
int vt_pager_end(const struct vt_command *command, struct vt_output *output, int status);

/* ---- export.c ---- */

#define VT_EXPORT_FORMATS 8u
const char *vt_export_format_name(unsigned format); /* "perfetto", … */

/* ---- ctl.c ---- */

/* Asks the recorder and waits for its answer, 3 s at most. An exit status, with the reason in `error` (at
 * least 512 bytes). */
struct vt_recorder;
int vt_control_ask(enum vt_control_command what, const char *text, const struct vt_recorder *recorder,
                   char *error, size_t error_bytes);

/* ---- folder.c ---- */
/* A folder that gets its name when everything in it is complete. */
struct vt_folder {
    const char *path; /* as given */
    char *temporary;  /* its name until then; NULL = none */
};
/* Makes an empty folder. An exit status, with a line on stderr if it is not 0: so if PATH is there and not an
 * empty folder. */
int vt_folder_begin(const struct vt_command *command, const char *path, struct vt_folder *folder);
/* Gives the folder its name if `status` is 0 and `result` (0 or -errno) too; else removes it, with a line on
 * stderr for `result`. The exit status. */
int vt_folder_end(const struct vt_command *command, struct vt_folder *folder, int status, int result);

/* ---- arguments.c ---- */

/* The command of that name, or NULL. */
const struct vt_command *vt_find_command(const char *name);
/* The candidate (NULL ends the list) nearest to `word`, or NULL if none is near. */
const char *vt_nearest(const char *word, const char *const *candidates);
/* Parses options and operands of `command` by options.def. VT_EXIT_WRONG_USE with a line on stderr; --help
 * sets `help` and ends parsing. */
int vt_parse_arguments(const struct vt_command *command, int argc, char **argv,
                       struct vt_arguments *arguments);
/* An option as help and completions show it. */
struct vt_option_text {
    char name[64];
    char letter;                   /* -o of --out; 0 = none */
    const char *value, *help;      /* value "" = takes none */
    const char *(*word)(unsigned); /* the values of a choice */
    unsigned words;
};
/* The command's option number `index`; false if it has no more. */
bool vt_option_at(const struct vt_command *command, size_t index, struct vt_option_text *text);
/* The letter that stands for an option, 0 = none. */
char vt_option_letter(const char *name);
/* run.c: the same for run, whose options are the recorder's settings. */
bool vt_run_option_at(size_t index, struct vt_option_text *text);
void vt_print_command_help(const struct vt_command *command, FILE *out);
void vt_print_help(FILE *out);

/* ---- traces.c ---- */

/* If none is named, the newest *.vrt of the folder becomes the operand, and stderr says which. */
int vt_find_traces(const struct vt_command *command, struct vt_arguments *arguments);
/* When recording began, CLOCK_REALTIME in ns; if the process ended before that, when the file was made. 0 =
 * no trace. */
uint64_t vt_trace_start(const char *path, struct stat *status);
/* The same, and the file's header: zeros where there is none. */
uint64_t vt_read_start(const char *path, struct stat *status, struct vt_file_header *header);
/* TRACE or TRACE@MOMENT: the path, which the caller frees, and the moment, NULL = none.
 * Files and marks may have an @ in their names: the longest beginning that is a file is the trace. If no file
 * matches, the path ends before the first @. */
char *vt_split_moment(const char *operand, const char **moment);

/* A trace with everything found out about it. */
struct vt_loaded {
    struct vt_trace *trace;
    struct vt_replay *replay;
    struct vt_attribution *attribution;
    struct vt_report *report; /* NULL = none was made */
    const char *rules;        /* NULL = the built-in ones only; as long as this */
    bool head_only;           /* only its first chunk was read */
    bool thinned;             /* some of its events were left out */
    struct vt_needs asked;    /* the events that a thinned trace must keep */
};
/* VT_EXIT_UNREADABLE or, for a bad rules file, VT_EXIT_WRONG_USE, with the reason in `error`. `thinned`: a
 * long trace is thinned. */
int vt_open(const char *path, const char *rules, bool thinned, struct vt_loaded *loaded, char *error,
            size_t error_bytes);
/* Reads only who was recorded, and the first events. */
int vt_open_head(const char *path, struct vt_loaded *loaded, char *error, size_t error_bytes);
/* Reads a thinned trace again if events around the moments in `options` were left out; what was made of it
 * before is then invalid. VT_EXIT_UNREADABLE with the reason in `error`, and nothing is loaded. */
int vt_reach(struct vt_loaded *loaded, const struct vt_report_options *options, char *error,
             size_t error_bytes);
/* A trace with more events than this is thinned. */
uint64_t vt_thin_above(void);
/* VT_EXIT_WRONG_USE with a line on stderr if the trace is long and --all-events was not given. `what` the
 * command does with each event, for that line. */
int vt_refuse_long(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                   const char *what);
/* A report of an open trace; VT_EXIT_WRONG_USE with the reason in `error` (at least 512 bytes). */
int vt_try_report(const struct vt_loaded *loaded, const struct vt_report_options *options, unsigned wanted,
                  struct vt_report **report, char *error, size_t error_bytes);
/* The same with a line on stderr instead, and words about newer traces of that name. */
int vt_load(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
            struct vt_loaded *loaded);
/* ... and makes its report with the findings `wanted` (enum vt_finding). */
int vt_load_report(const struct vt_command *command, const struct vt_arguments *arguments, const char *path,
                   const struct vt_report_options *options, unsigned wanted, struct vt_loaded *loaded);
void vt_unload(struct vt_loaded *loaded);
/* A report of a loaded trace; errors as vt_load, with `path` in the line. */
int vt_make_report(const struct vt_command *command, const char *path, const struct vt_loaded *loaded,
                   const struct vt_report_options *options, unsigned wanted, struct vt_report **report);

/* Begins the page of a trace that could be read: the pager, and the separator after an earlier page. */
void vt_begin_page(const struct vt_command *command, const struct vt_arguments *arguments,
                   struct vt_output *output);

/* Runs a command on each operand, as long as the output can be written. `separator` comes between the pages
 * that vt_begin_page begins, NULL = none. Returns the worst status. */
int vt_for_each_trace(const struct vt_command *command, const struct vt_arguments *arguments,
                      struct vt_output *output, const char *separator,
                      int (*run)(const struct vt_command *command, const struct vt_arguments *arguments,
                                 const char *path, struct vt_output *output));

/* ---- report.c ---- */

/* The page of report, leaks, oom or frag, of an open trace. An exit status, with the reason in `error`; the
 * stream's own error is left to the caller. */
int vt_report_page(const struct vt_command *command, const struct vt_arguments *arguments,
                   const struct vt_loaded *loaded, const struct vt_view_style *style, FILE *out, char *error,
                   size_t error_bytes);

#endif
