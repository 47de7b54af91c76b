#include "record/run_list.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vramtrace/ring.h"

/* `run` may be gone, and its pid reused: then the descriptor is some other file. */
static bool is_list(const char *path)
{
    static const char expected[] = "/memfd:" VT_RUN_LIST " (deleted)";
    char target[sizeof expected];
    return readlink(path, target, sizeof target) == sizeof expected - 1 &&
           !memcmp(target, expected, sizeof expected - 1);
}

/* Not in a thread with its own descriptors: making one takes address space that the host may need. Besides,
 * the trace's own descriptor was among the host's a moment ago. */
bool vt_run_list_add(const char *list, const char *trace_path, bool of_job)
{
    char line[4096 + 32];
    int length = snprintf(line, sizeof line, VT_RUN_LINE, (int)getpid(), of_job, trace_path);
    if (!list[0] || length >= (int)sizeof line || !is_list(list))
        return false;
    int file = open(list, O_WRONLY | O_APPEND | O_CLOEXEC);
    const bool written = file >= 0 && write(file, line, (size_t)length + 1) == length + 1;
    if (file >= 0 && !written)
        fchmod(file, 0); /* tells `run` that an entry is missing; a file size limit applies to the list too */
    if (file >= 0)
        close(file);
    return written;
}
