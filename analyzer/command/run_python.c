/* `run train.py` and `run -m package`: Python runs them. */
#include "command/run_python.h"

#include "base/allocate.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_program(const char *path)
{
    struct stat status;

    return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

/* It names its interpreter itself. */
static bool is_executable_script(const char *path)
{
    char begin[2] = "";
    int file = is_program(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool names = file >= 0 && read(file, begin, 2) == 2 && begin[0] == '#' && begin[1] == '!';

    if (file >= 0)
        close(file);
    return names;
}

static bool is_script(const char *word, bool has_interpreter)
{
    size_t length = strlen(word);
    struct stat status;

    return length > 3 && !strcmp(word + length - 3, ".py") && !stat(word, &status) &&
           (has_interpreter || !strchr(word, '/') || !is_executable_script(word));
}

static bool is_in_path(const char *name)
{
    const char *path = getenv("PATH");
    char file[PATH_MAX];

    for (const char *at = path ? path : "/bin:/usr/bin"; *at; at += *at == ':') {
        int length = (int)strcspn(at, ":");

        if (snprintf(file, sizeof file, "%.*s/%s", length ? length : 1, length ? at : ".", name) <
                (int)sizeof file &&
            is_program(file))
            return true;
        at += length;
    }
    return false;
}

/* The Python of a virtual environment whose `vramtrace` was called by its path; else the first in PATH, where
 * an activated environment comes first. */
static char *find_python(void)
{
    static char beside[PATH_MAX + 16];
    const char *slash = strrchr(program_invocation_name, '/');
    int length = slash ? (int)(slash - program_invocation_name) : 0;

    if (length && length < PATH_MAX) {
        snprintf(beside, sizeof beside, "%.*s/../pyvenv.cfg", length, program_invocation_name);
        if (!access(beside, F_OK)) {
            snprintf(beside, sizeof beside, "%.*s/python", length, program_invocation_name);
            if (is_program(beside))
                return beside;
        }
    }
    return is_in_path("python") ? "python" : is_in_path("python3") ? "python3" : NULL;
}

/* `python -m vramtrace run` says which Python. Not for the child: it is no setting. */
char **vt_run_with_python(char **words)
{
    char *interpreter = getenv("VRAMTRACE_INTERPRETER");
    bool has_interpreter = interpreter && interpreter[0];

    if (!strcmp(words[0], "-m") || is_script(words[0], has_interpreter)) {
        interpreter = has_interpreter ? vt_copy_text(interpreter) : find_python();
        *--words = interpreter;
    }
    unsetenv("VRAMTRACE_INTERPRETER");
    return words[0] ? words : NULL;
}
