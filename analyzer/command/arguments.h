/* Options and operands of the commands that read traces. */
#ifndef VT_COMMAND_ARGUMENTS_H
#define VT_COMMAND_ARGUMENTS_H

#include "command/command.h"
#include "findings/check.h"

#include <stdbool.h>

enum vt_check_format { VT_CHECK_TEXT, VT_CHECK_JSON, VT_CHECK_GITHUB, VT_CHECK_JUNIT, VT_CHECK_FORMATS };
enum vt_colour_choice { VT_COLOUR_AUTO, VT_COLOUR_ALWAYS, VT_COLOUR_NEVER, VT_COLOUR_CHOICES };

struct vt_arguments {
    const struct vt_command *command;
    int device, by, axis, top, width, depth; /* -1, -1, -1, 0, 0, 0 = not given */
    int colour;                              /* enum vt_colour_choice */
    const char *at, *from, *to, *rules, *explain, *output, *title, *trials;
    bool json, events, stacks, verify, help, diff, no_pager;
    bool all; /* steps, annotate */
    bool redact;
    bool no_source;
    bool each_event; /* no option: the command's output holds each event, so all of a long trace is read */
    bool each;       /* several traces are not merged */
    bool open;       /* html */
    struct vt_limits limits; /* check */
    int check_format;        /* enum vt_check_format */
    const char *baseline;
    const char *format, *export_path; /* export; export_path: also top */
    bool once, prometheus;            /* top */
    int interval, count, sort;        /* top: seconds, samples, enum vt_top_key; 0, 0, -1 = not given */
    int table;                        /* enum vt_table_id, -1 = all */
    bool summary;                     /* report, export */
    bool full;                        /* more than the first screen */
    struct vt_words {                 /* oom: of each --try */
        const char **items;
        size_t count;
    } tries;
    bool advise; /* oom */
    bool brief;                       /* text for an assistant, with its data if `json` */
    char **operands;
    int operand_count;
    char *found_path, *found[2]; /* a trace that was not named (owned), and the operands with it */
};

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
void vt_print_command_help(const struct vt_command *command, FILE *out);

#endif
