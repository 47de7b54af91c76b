/* Text of source files. A trace is untrusted: only what looks like a source file is opened, and nothing that
 * could block. */
#include "report/sources.h"

#include "base/allocate.h"
#include "base/index.h"
#include "trace/trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SOURCE_BYTES (16 << 20)

const char *vt_source_state_name(unsigned state)
{
    static const char *const names[VT_SOURCE_STATES] = {"read", "missing", "newer", "refused"};

    return state < VT_SOURCE_STATES ? names[state] : "?";
}

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

/* A regular file, not changed since the trace began (lines of a newer one may differ), whose name ends as a
 * source's does. NULL with the reason in *state. */
static FILE *open_source(const struct vt_trace *trace, const char *path, uint8_t *state)
{
    struct stat status;
    FILE *stream;
    int file;

    *state = VT_SOURCE_REFUSED;
    if (path[0] != '/' || !is_source_name(path))
        return NULL;
    *state = VT_SOURCE_MISSING;
    file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return NULL;
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_size > MAX_SOURCE_BYTES)
        *state = VT_SOURCE_REFUSED;
    else if ((uint64_t)status.st_mtime > trace->header.start_realtime_ns / 1000000000u)
        *state = VT_SOURCE_NEWER;
    else
        *state = VT_SOURCE_READ;
    if (*state != VT_SOURCE_READ) {
        close(file);
        return NULL;
    }
    stream = fdopen(file, "r");
    if (!stream)
        vt_end_out_of_memory();
    return stream;
}

void vt_source_read(const struct vt_trace *trace, const char *path, struct vt_source_text *source)
{
    FILE *file = open_source(trace, path, &source->state);
    size_t room = 0, capacity = 0;
    char *line = NULL;
    ssize_t bytes;

    if (!file)
        return;
    while ((bytes = getline(&line, &room, file)) >= 0) {
        while (bytes && (line[bytes - 1] == '\n' || line[bytes - 1] == '\r'))
            bytes--;
        VT_APPEND(source->lines, source->count, capacity, vt_arena_text(&source->arena, line, (size_t)bytes));
    }
    if (ferror(file)) { /* as if it were not there: a number without text is still true */
        source->count = 0;
        source->state = VT_SOURCE_MISSING;
    } else if (!feof(file)) {
        vt_end_out_of_memory();
    }
    free(line);
    fclose(file);
}

void vt_source_free(struct vt_source_text *source)
{
    vt_arena_free(&source->arena);
    free(source->lines);
    *source = (struct vt_source_text){0};
}
