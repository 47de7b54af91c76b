#include "view/text/text.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SOURCE_BYTES (16 << 20)

/* The trace is untrusted: only what looks like a source file is opened, and nothing that could block. */
static bool is_source_name(const char *path)
{
    static const char *const endings[] = {".py", ".pyx", ".c", ".cc",  ".cpp", ".cxx",
                                          ".cu", ".cuh", ".h", ".hpp", ".rs"};
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(dot, endings[i]))
            return true;
    return false;
}

/* Opens a regular file that was not changed since the trace began: a line of a newer one may be another. */
static FILE *open_source(const struct vt_trace *trace, const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return NULL;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > MAX_SOURCE_BYTES ||
        (uint64_t)status.st_mtime > trace->header.start_realtime_ns / 1000000000u) {
        close(fd);
        return NULL;
    }
    return fdopen(fd, "r");
}

char *vt_source_line(const struct vt_trace *trace, const char *path, int32_t line)
{
    char *text = NULL, *found = NULL;
    size_t capacity = 0;
    FILE *file = path && line > 0 && path[0] == '/' && is_source_name(path) ? open_source(trace, path) : NULL;

    if (!file)
        return NULL;
    while (line > 0 && getline(&text, &capacity, file) >= 0)
        line--;
    if (!line && text) {
        char *start = text + strspn(text, " \t");
        start[strcspn(start, "\r\n")] = '\0';
        found = strdup(start);
    }
    free(text);
    fclose(file);
    return found;
}
