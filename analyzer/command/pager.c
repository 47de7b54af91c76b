/* Long text goes through a pager, as git's does: the pager is a child that reads a pipe, and we wait for it.
 */
#include "command/pager.h"

#include "base/allocate.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 32

extern char **environ;

/* One at a time; the handler needs them. */
static volatile pid_t running;
static volatile int pipe_end = -1;
static int standard_error = -1; /* the real one, while messages go through the pager too */

static bool is_nothing(const char *pager)
{
    return !pager[strspn(pager, " ")] || !strcmp(pager, "cat");
}

/* NULL = none. `named`: a user chose it. */
static const char *pager_of(bool *named)
{
    const char *term = getenv("TERM"), *pager = getenv("VRAMTRACE_PAGER");

    if (!isatty(STDOUT_FILENO) || !term || !term[0] || !strcmp(term, "dumb"))
        return NULL;
    if (!pager)
        pager = getenv("PAGER");
    *named = pager != NULL;
    if (!pager)
        pager = "less";
    return is_nothing(pager) ? NULL : pager;
}

static void wait_for_pager(void)
{
    close(pipe_end);
    if (standard_error >= 0)
        dup2(standard_error, STDERR_FILENO); /* closes the pipe's last end */
    while (running && waitpid(running, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Ctrl-C goes to the pager too, which goes on: dying before it would leave two readers on the terminal. */
static void die_after_pager(int number)
{
    wait_for_pager();
    signal(number, SIG_DFL);
    raise(number);
}

static void handle_signals(void (*handler)(int))
{
    static const int numbers[] = {SIGINT, SIGHUP, SIGTERM, SIGQUIT};

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction action = {.sa_handler = handler};

        sigemptyset(&action.sa_mask);
        sigaction(numbers[i], &action, NULL);
    }
}

/* A command of plain words is run directly, so that a missing program is noticed at once; any other by the
 * shell. Returns 0 or an errno. */
static int spawn_pager(const char *pager, int input, pid_t *child)
{
    static const char shell_signs[] = "|&;<>()$`\\\"'*?[]#~=%{}\t\n";
    char *copy = vt_copy_text(pager), *words[WORDS + 1] = {"sh", "-c", copy, NULL}, *rest;
    bool shell = strpbrk(pager, shell_signs) != NULL;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t usual;
    int error, count = 0;

    for (char *word = shell ? NULL : strtok_r(copy, " ", &rest); word && count < WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        words[count++] = word;
        words[count] = NULL;
    }
    sigemptyset(&usual); /* ignored here (main.c) */
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGXFSZ);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    if (posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO))
        vt_end_out_of_memory();
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    error = posix_spawnp(child, words[0], &actions, &attributes, words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(copy);
    return error;
}

/* From here on output goes to the pipe, and messages with it: else they would be drawn over the pager's text.
 */
static int join_pipe(struct vt_output *output, int end)
{
    FILE *stream = fdopen(end, "w");

    if (!stream)
        return errno;
    output->stream = stream;
    output->paged = true;
    pipe_end = end;
    fflush(stderr);
    if (!isatty(STDERR_FILENO))
        return 0;
    standard_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (standard_error >= 0)
        dup2(end, STDERR_FILENO);
    return 0;
}

void vt_pager_begin(const struct vt_arguments *arguments, struct vt_output *output)
{
    bool named = false;
    const char *pager =
        arguments->no_pager || arguments->json || output->path || output->paged ? NULL : pager_of(&named);
    int ends[2], error;
    pid_t child;

    if (!pager || fflush(stdout) || pipe2(ends, O_CLOEXEC))
        return;
    setenv("LESS", "FRX", 0);
    setenv("LV", "-c", 0);
    error = spawn_pager(pager, ends[0], &child);
    close(ends[0]);
    if (error) {
        if (named)
            vt_say("cannot run the pager '%s': %s; set VRAMTRACE_PAGER to another, or to cat for none", pager,
                   strerror(error));
        close(ends[1]);
        return;
    }
    running = child;
    if (join_pipe(output, ends[1])) {
        close(ends[1]);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        return;
    }
    handle_signals(die_after_pager);
    vt_undo_out_of_memory(wait_for_pager);
}

int vt_pager_end(struct vt_output *output, int status)
{
    int ended = 0;

    if (!output->paged)
        return status;
    fclose(output->stream);
    output->stream = stdout;
    output->paged = false;
    if (standard_error >= 0) {
        dup2(standard_error, STDERR_FILENO); /* closes the pipe's last end */
        close(standard_error);
    }
    while (waitpid(running, &ended, 0) < 0 && errno == EINTR)
        ;
    handle_signals(SIG_DFL);
    running = 0;
    pipe_end = standard_error = -1;
    /* The shell's word for a command that it could not run; any other status is the pager's own affair. */
    if (!WIFEXITED(ended) || (WEXITSTATUS(ended) != 126 && WEXITSTATUS(ended) != 127))
        return status;
    vt_say("the pager could not be run, so nothing was printed; set VRAMTRACE_PAGER to another, or to "
           "cat for none");
    return VT_EXIT_NOT_WRITTEN;
}

void vt_begin_page(const struct vt_arguments *arguments, struct vt_output *output)
{
    vt_pager_begin(arguments, output);
    if (output->has_page && output->separator)
        fputs(output->separator, output->stream);
    output->has_page = true;
}

int vt_for_each_trace(const struct vt_arguments *arguments, struct vt_output *output, const char *separator,
                      vt_trace_command *run)
{
    int worst = 0;

    output->separator = separator;
    for (int i = 0; i < arguments->operand_count && !output->broken; i++) {
        int result = run(arguments, arguments->operands[i], output);

        worst = result > worst ? result : worst;
    }
    return worst;
}
