/* Parquet is written by pyarrow: there is no library for C that systems have. */
#include "command/command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* What lies in the current folder is no module of Python's. */
static const char converter[] = "import sys\nsys.path = [folder for folder in sys.path if folder]\n"
#include "parquet.inc" /* made from python/vramtrace/parquet.py at build time */
    ;

#define HINT                                                                                                 \
    "it converts to Parquet: install Python 3 with pyarrow, or set VRAMTRACE_PYTHON to a Python that has it"

int vt_parquet_convert(const struct vt_command *command, const char *folder, const char *trace)
{
    const char *python = getenv("VRAMTRACE_PYTHON");
    char *name, *arguments[] = {NULL, "-c", (char *)converter, NULL, "--", (char *)folder, NULL};
    int error, status;

    if (asprintf(&name, "--trace=%s", trace) < 0) {
        vt_say(command, "out of memory");
        return VT_EXIT_UNREADABLE;
    }
    arguments[0] = python && python[0] ? (char *)python : "python3";
    arguments[3] = name;
    error = vt_temporary_run(arguments, &status);
    free(name);
    if (error) {
        vt_say(command, "cannot start %s: %s; " HINT, arguments[0], strerror(error));
        return VT_EXIT_NOT_WRITTEN;
    }
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return 0;
    if (WIFSIGNALED(status))
        vt_say(command, "%s was killed by signal %d; " HINT, arguments[0], WTERMSIG(status));
    else if (WEXITSTATUS(status) != VT_EXIT_NOT_WRITTEN) /* else it has said why */
        vt_say(command, "%s ended with status %d; " HINT, arguments[0], WEXITSTATUS(status));
    return VT_EXIT_NOT_WRITTEN;
}
