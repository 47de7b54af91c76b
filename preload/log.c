#include "log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* stderr as it was when the library was loaded. */
static struct {
    bool usable;
    dev_t device;
    ino_t inode;
} at_start;

void vt_log_start(bool quiet)
{
    struct stat status;
    at_start.usable = !quiet && fstat(STDERR_FILENO, &status) == 0;
    if (!at_start.usable)
        return;
    at_start.device = status.st_dev;
    at_start.inode = status.st_ino;
}

static bool is_stderr_still(void)
{
    struct stat status;
    return at_start.usable && fstat(STDERR_FILENO, &status) == 0 && status.st_dev == at_start.device &&
           status.st_ino == at_start.inode;
}

/* stderr may be a pipe without a reader. Our write must not kill a host that might never have written to it
 * again, so our own SIGPIPE is taken back. Nor may the host's thread be cancelled in the write. */
static void write_quietly(const char *line, size_t bytes)
{
    sigset_t pipe_only, before, pending;
    int cancel_state;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    if (write(STDERR_FILENO, line, bytes) < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        sigtimedwait(&pipe_only, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_setcancelstate(cancel_state, NULL);
}

void vt_log(const char *format, ...)
{
    char line[2048] = "vramtrace: ";
    const size_t prefix = 11;
    va_list arguments;
    if (!is_stderr_still())
        return;
    va_start(arguments, format);
    int length = vsnprintf(line + prefix, sizeof line - prefix - 1, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t total = prefix + (size_t)length;
    if (total > sizeof line - 2)
        total = sizeof line - 2;
    line[total] = '\n';
    write_quietly(line, total + 1);
}
