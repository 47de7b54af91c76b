/* Where libvramtrace.so is. */
#include "command/command.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libvramtrace.so"

#ifndef VT_LIBDIR
#define VT_LIBDIR "/usr/local/lib"
#endif
#ifndef VT_MULTIARCH
#define VT_MULTIARCH ""
#endif

static bool executable_folder(char *folder, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", folder, bytes - 1);
    char *slash;

    if (length <= 0)
        return false;
    folder[length] = '\0';
    slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

static char *find_beside(void)
{
    static const char *const places[] = {"../lib/" VT_MULTIARCH "/" LIBRARY, "../lib/" LIBRARY,
                                         "../lib64/" LIBRARY, "../preload/" LIBRARY};
    char folder[PATH_MAX], path[PATH_MAX + 64];

    if (executable_folder(folder, sizeof folder)) {
        for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
            char *real;
            snprintf(path, sizeof path, "%s/%s", folder, places[i]);
            real = realpath(path, NULL);
            if (real)
                return real;
        }
    }
    return realpath(VT_LIBDIR "/" LIBRARY, NULL);
}

char *vt_library_path(char *error, size_t error_bytes)
{
    const char *chosen = getenv("VRAMTRACE_LIBRARY");
    char *path = chosen && chosen[0] ? realpath(chosen, NULL) : find_beside();

    if (!path && chosen && chosen[0])
        snprintf(error, error_bytes, "VRAMTRACE_LIBRARY names %s: %s", chosen, strerror(errno));
    else if (!path)
        snprintf(error, error_bytes,
                 LIBRARY " is neither beside this program nor in " VT_LIBDIR
                         "; set VRAMTRACE_LIBRARY to its path");
    else if (access(path, R_OK))
        snprintf(error, error_bytes, "%s cannot be read: %s", path, strerror(errno));
    else if (strpbrk(path, " :")) /* what LD_PRELOAD is split at */
        snprintf(error, error_bytes,
                 "%s: a path with a space or a colon cannot be preloaded; link it elsewhere", path);
    else
        return path;
    free(path);
    return NULL;
}

int vt_command_lib(const struct vt_command *command, struct vt_arguments *arguments, struct vt_output *output)
{
    char error[PATH_MAX + 256], *path = vt_library_path(error, sizeof error);

    (void)arguments;
    if (!path)
        return vt_wrong_use(command, "%s", error);
    fprintf(output->stream, "%s\n", path); /* as it is: LD_PRELOAD is made of it */
    free(path);
    return vt_written(command, output, 0);
}
