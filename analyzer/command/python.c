#include "command/python.h"
#include "command/output.h"
#include "command/temporary.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Modules must not come from the program's folder; option -P is new in Python 3.11. */
#define BEGIN "import sys\nif not getattr(sys.flags, 'safe_path', False):\n    del sys.path[0]\n"

/* Made from python/vramtrace at build time. */
static const char parquet[] = BEGIN
#include "parquet.inc"
    ;
static const char memory_viz[] = BEGIN
#include "memory_viz.inc"
    ;
static const char mcp[] = BEGIN
#include "mcp.inc"
    ;

static const struct text {
    const char *text;
    size_t bytes;
    const char *needs;
} texts[] = {
    [VT_PYTHON_PARQUET] =
        {parquet, sizeof parquet - 1,
         "it converts to Parquet: install Python 3 with pyarrow, or set VRAMTRACE_PYTHON to a "
         "Python that has it"},
    [VT_PYTHON_MEMORY_VIZ] = {memory_viz, sizeof memory_viz - 1,
                              "it writes the pickle: install Python 3, or set VRAMTRACE_PYTHON to a Python"},
    [VT_PYTHON_MCP] = {mcp, sizeof mcp - 1,
                       "it is the server: install Python 3.11 or newer with the package mcp, or set "
                       "VRAMTRACE_PYTHON to a Python that has it"},
};

/* `beside` has room for PATH_MAX and 16 bytes. */
static const char *find_interpreter(char *beside)
{
    const char *chosen = getenv("VRAMTRACE_PYTHON");

    if (chosen && chosen[0])
        return chosen;
#ifdef VT_WHEEL
    if (realpath("/proc/self/exe", beside) && strrchr(beside, '/')) {
        strcpy(strrchr(beside, '/'), "/python3");
        if (!access(beside, X_OK))
            return beside;
    }
#else
    (void)beside;
#endif
    return "python3";
}

/* A file with the program's text, without a name. -errno. */
static int open_text(const struct text *text)
{
    int file = memfd_create("vramtrace", 0);

    for (size_t done = 0; file >= 0 && done < text->bytes;) {
        ssize_t bytes = write(file, text->text + done, text->bytes - done);

        if (bytes < 0) {
            int error = -errno;

            close(file);
            return error;
        }
        done += (size_t)bytes;
    }
    return file < 0 ? -errno : file;
}

/* What waits for it has room: `path` 32 bytes, `beside` as interpreter(). The file, or -errno. */
static int begin_program(const struct text *text, const char *arguments[], char *path, char *beside)
{
    int file = open_text(text);

    sprintf(path, "/proc/self/fd/%d", file);
    arguments[0] = find_interpreter(beside);
    arguments[1] = path;
    return file;
}

static void say_not_started(const struct text *text, const char *python, int error)
{
    if (error == ENOMEM)
        vt_end_out_of_memory();
    vt_say("cannot start %s: %s; %s", python, strerror(error), text->needs);
}

int vt_python_run(enum vt_python_program program, const char *arguments[])
{
    const struct text *text = &texts[program];
    char path[32], beside[PATH_MAX + 16];
    int status, file = begin_program(text, arguments, path, beside),
                error = file < 0 ? -file : vt_temporary_run((char *const *)arguments, &status);

    if (file >= 0)
        close(file);
    if (error) {
        say_not_started(text, arguments[0], error);
        return VT_EXIT_NOT_WRITTEN;
    }
    if (WIFSIGNALED(status))
        vt_say("%s was killed by signal %d; %s", arguments[0], WTERMSIG(status), text->needs);
    else if (!WEXITSTATUS(status) || WEXITSTATUS(status) == VT_EXIT_NOT_WRITTEN ||
             WEXITSTATUS(status) == VT_EXIT_OUT_OF_MEMORY)
        return WEXITSTATUS(status); /* it has said why */
    else
        vt_say("%s ended with status %d; %s", arguments[0], WEXITSTATUS(status), text->needs);
    return VT_EXIT_NOT_WRITTEN;
}

int vt_python_become(enum vt_python_program program, const char *arguments[])
{
    const struct text *text = &texts[program];
    char path[32], beside[PATH_MAX + 16];
    int file = begin_program(text, arguments, path, beside), error = -file;

    if (file >= 0) {
        execvp(arguments[0], (char *const *)arguments);
        error = errno;
        close(file);
    }
    say_not_started(text, arguments[0], error);
    return VT_EXIT_WRONG_USE;
}
