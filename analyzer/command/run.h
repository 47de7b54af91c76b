/* Commands that run another one: run, and dryrun. Their options are the recorder's settings. */
#ifndef VT_COMMAND_RUN_H
#define VT_COMMAND_RUN_H

#include "command/arguments.h"
#include "command/run_line.h"
#include "command/run_wait.h"

/* As vt_option_at. */
bool vt_run_option_at(size_t index, struct vt_option_text *text);
void vt_print_run_help(FILE *out);
void vt_print_settings_help(FILE *out);

/* What another command adds to run. Functions may be NULL. */
struct vt_runner {
    const struct vt_command *command;
    /* Takes an option of its own, as run takes its own: --name=value, or --name and the next word. False: it
     * is none. An error was said if *result is not 0. */
    bool (*option)(char **words, int count, int *i, int *result);
    const char *const *options;   /* their names, NULL ends them */
    int (*prepare)(char **words); /* before the command starts; an exit status */
    int (*play)(char **words);    /* in place of the command: runs it several times; an exit status */
    vt_run_sayer *say;
    void (*end)(void); /* when the command has ended */
    void (*print_help)(FILE *out);
    unsigned limit_s;
    char **words;       /* the command, if none is given; NULL = one must be */
    const char *folder; /* where it starts; NULL = here */
    /* Instead of vt_run_start: may call it more than once, each time in a child. NULL = none */
    int (*start)(char **words);
};
/* Starts the command and waits for it. The exit status; does not return if the command was killed. */
int vt_run_start(const struct vt_runner *runner, char **words);
int vt_run_command(const struct vt_runner *runner, struct vt_arguments *arguments, struct vt_output *output);
/* Returns an exit status if it cannot run; a line said why. */
int vt_run_become(char **words);
/* Sets an environment variable of the command. */
void vt_run_set(const char *name, const char *value, bool overwrite);
/* A file in the first of `places` (beside this program), or NULL. The caller frees it. */
char *vt_run_find_beside(const char *const *places);

#endif
