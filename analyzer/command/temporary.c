/* Incomplete output has a temporary name, and is removed when a signal ends the command. Nothing here
 * allocates: it also runs when memory is out. */
#include "command/temporary.h"

#include "base/allocate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* The handler reads them. */
static const char *volatile unfinished; /* NULL = nothing */
static volatile pid_t writer;           /* a child that writes there, 0 = none */

/* Removes the files of a folder without subfolders. */
static void empty_folder(int folder)
{
    _Alignas(struct dirent64) char entries[4096];
    bool any = true;
    long bytes;

    while (any && !lseek(folder, 0, SEEK_SET))
        for (any = false; (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
            for (long at = 0; at < bytes;) {
                const struct dirent64 *entry = (const void *)(entries + at);

                any |= !unlinkat(folder, entry->d_name, 0);
                at += entry->d_reclen;
            }
}

void vt_remove(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (folder < 0) {
        unlink(path);
        return;
    }
    empty_folder(folder);
    close(folder);
    rmdir(path);
}

static void remove_unfinished(void)
{
    if (writer) {
        kill(writer, SIGKILL);
        while (waitpid(writer, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    if (unfinished)
        vt_remove(unfinished);
}

static void remove_and_die(int number)
{
    remove_unfinished();
    signal(number, SIG_DFL);
    raise(number);
}

/* Signals that were ignored stay so: nohup. */
static void handle_signals(const sigset_t *numbers)
{
    struct sigaction action = {.sa_handler = remove_and_die, .sa_mask = *numbers}, old;

    for (int number = 1; number < NSIG; number++)
        if (sigismember(numbers, number) == 1 && !sigaction(number, NULL, &old) && old.sa_handler == SIG_DFL)
            sigaction(number, &action, NULL);
}

static void block_signals(sigset_t *numbers, sigset_t *before)
{
    sigemptyset(numbers);
    sigaddset(numbers, SIGHUP);
    sigaddset(numbers, SIGINT);
    sigaddset(numbers, SIGQUIT);
    sigaddset(numbers, SIGTERM);
    sigprocmask(SIG_BLOCK, numbers, before);
}

int vt_temporary_make(char *name, bool folder)
{
    sigset_t numbers, before;
    int made, error;

    block_signals(&numbers, &before); /* it is made and known at once */
    made = folder ? (mkdtemp(name) ? 0 : -1) : mkostemp(name, O_CLOEXEC);
    error = errno;
    if (made >= 0) {
        unfinished = name;
        handle_signals(&numbers);
        vt_undo_out_of_memory(remove_unfinished);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return made;
}

int vt_temporary_run(char *const arguments[], int *status)
{
    posix_spawnattr_t attributes;
    sigset_t numbers, before;
    siginfo_t ended;
    pid_t child;
    int error;

    block_signals(&numbers, &before); /* it runs and is known at once */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &before);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    error = posix_spawnp(&child, arguments[0], NULL, &attributes, arguments, environ);
    writer = error ? 0 : child;
    sigprocmask(SIG_SETMASK, &before, NULL);
    posix_spawnattr_destroy(&attributes);
    if (error)
        return error;
    while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    writer = 0; /* before its number can be another's */
    return waitpid(child, status, 0) < 0 ? errno : 0;
}

int vt_temporary_keep(const char *target)
{
    if (rename(unfinished, target))
        return errno;
    unfinished = NULL;
    return 0;
}

void vt_temporary_remove(void)
{
    if (unfinished)
        vt_remove(unfinished);
    unfinished = NULL;
}
