/* Text of source files. A trace is untrusted: only what looks like a source file is opened, also where a link
 * leads, and of another user's trace only what that user may read, too. */
#include "report/sources.h"

#include "base/allocate.h"
#include "base/index.h"
#include "base/open_file.h"
#include "trace/trace.h"

#include <errno.h>
#include <limits.h>
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

static bool hidden;

void vt_sources_hide(void)
{
    hidden = true;
}

/* Whether the user who recorded the trace may read that file; true if that is the one who reads it now. */
static bool owner_may_read(const struct vt_trace *trace, const char *path)
{
    struct stat recorded, status;
    char *end, *part = vt_copy_text(path);
    bool may = !stat(trace->path, &recorded);

    if (may && recorded.st_uid != geteuid())
        for (end = part + strlen(part); may && end > part; end = strrchr(part, '/')) {
            *end = '\0';
            may = !stat(part, &status) && (status.st_uid == recorded.st_uid ||
                                           (status.st_mode & (S_ISDIR(status.st_mode) ? S_IXOTH : S_IROTH)));
        }
    free(part);
    return may;
}

/* A regular file, not changed since the trace began (lines of a newer one may differ), whose name ends as a
 * source's does, and that of the file that it leads to. NULL with the reason in *state. */
static FILE *open_source(const struct vt_trace *trace, const char *path, uint8_t *state)
{
    char real[PATH_MAX];
    struct stat status;
    FILE *stream;
    int file;

    *state = VT_SOURCE_REFUSED;
    if (hidden || path[0] != '/' || !is_source_name(path))
        return NULL;
    *state = VT_SOURCE_MISSING;
    if (!realpath(path, real))
        return NULL;
    *state = VT_SOURCE_REFUSED;
    if (!is_source_name(real) || !owner_may_read(trace, real))
        return NULL;
    file = vt_open_regular(real, &status);
    if (file < 0) {
        *state = errno == EINVAL ? VT_SOURCE_REFUSED : VT_SOURCE_MISSING;
        return NULL;
    }
    if (status.st_size > MAX_SOURCE_BYTES)
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
