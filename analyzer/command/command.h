/* The commands: a table, from which come the program's help, its completions and its manual pages. */
#ifndef VT_COMMAND_H
#define VT_COMMAND_H

#include <stdio.h>

struct vt_arguments;
struct vt_output;

/* What follows a command's options. WORDS: the command parses its own command line. TRACES (a folder means
 * the traces in it), JOB (traces and folders as a whole), TWO and FILE (a trace and a source file): a missing
 * trace is the newest in the folder. PATHS: traces and folders. */
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
    X(RECORD, "Record") X(LOOK, "Analyze") X(COMPARE, "Compare") X(INTEGRATE, "Integrate")
enum vt_command_group {
#define X(id, title) VT_GROUP_##id,
    VT_COMMAND_GROUPS(X)
#undef X
};

/* id, group, name, function, what it takes, arguments, what it does: in help, one line of 80 columns. */
#define VT_COMMANDS(X)                                                                                       \
    X(RUN, RECORD, "run", vt_command_run, WORDS, "[OPTIONS] COMMAND...",                                     \
      "run a command and record its GPU memory use")                                                         \
    X(DRYRUN, RECORD, "dryrun", vt_command_dryrun, WORDS, "[OPTIONS] COMMAND...",                           \
      "run a command on a simulated GPU: would it fit?")                                                     \
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

struct vt_command {
    const char *name, *arguments, *summary;
    enum vt_command_group group;
    enum vt_takes takes;
    unsigned bit; /* 1u << enum vt_command_id */
};
extern const struct vt_command vt_commands[VT_COMMAND_COUNT];

/* Functions of commands return the exit status. For WORDS, `arguments` has all words as operands. */
#define X(id, group, name, function, takes, words, summary)                                                  \
    int function(struct vt_arguments *arguments, struct vt_output *output);
VT_COMMANDS(X)
#undef X
/* The command of that name, or NULL. */
const struct vt_command *vt_find_command(const char *name);
/* The candidate (NULL ends the list) nearest to `word`, or NULL if none is near. */
const char *vt_nearest(const char *word, const char *const *candidates);
void vt_print_help(FILE *out);

#endif
