/* The list of a run's traces, and their headers. */
#include "command/run_list.h"
#include "command/traces.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vramtrace/ring.h"
#include "base/allocate.h"

int vt_run_make_list(void)
{
    char path[64];
    int list = memfd_create(VT_RUN_LIST, MFD_CLOEXEC);

    if (list < 0)
        return -errno;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), list);
    if (setenv(VT_RUN_VARIABLE, path, 1)) {
        close(list);
        return -ENOMEM;
    }
    return list;
}

bool vt_run_is_inner(void)
{
    const char *path = getenv(VT_RUN_VARIABLE);
    struct stat list, theirs, ours;
    char error[64];
    int pid, file;

    if (!path || sscanf(path, "/proc/%d/fd/%d", &pid, &file) != 2 || stat(path, &list))
        return false;
    snprintf(error, sizeof error, "/proc/%d/fd/2", pid);
    return !stat(error, &theirs) && !fstat(STDERR_FILENO, &ours) && theirs.st_dev == ours.st_dev &&
           theirs.st_ino == ours.st_ino;
}

void vt_run_not_started(int list)
{
    dprintf(list, VT_RUN_LINE, (int)getpid(), 0, "");
    if (write(list, "", 1) < 0)
        return; /* then a second line is printed */
}

void vt_run_read_list(int list, off_t from, struct vt_run_traces *traces)
{
    struct stat status = {.st_size = 0}; /* a list that cannot be read is not complete */
    size_t bytes = fstat(list, &status) || status.st_size < from ? 0 : (size_t)(status.st_size - from);
    char *text = vt_allocate_zeros(bytes + 1, 1);

    *traces = (struct vt_run_traces){.text = text};
    traces->incomplete = !(status.st_mode & 0777);
    traces->items = vt_allocate_zeros(bytes, sizeof *traces->items);
    if (pread(list, text, bytes, from) != (ssize_t)bytes)
        return;
    for (char *at = text; at < text + bytes; at += strlen(at) + 1) {
        struct vt_run_trace *trace = &traces->items[traces->count];
        int path_at = 0;

        if (sscanf(at, "%d %d %n", &trace->pid, &trace->of_job, &path_at) < 2)
            continue;
        trace->path = at + path_at;
        if (vt_trace_start(trace->path))
            traces->count++;
        else
            traces->incomplete = true;
    }
}

void vt_run_traces_free(struct vt_run_traces *traces)
{
    free(traces->items);
    free(traces->text);
}

bool vt_run_read_header(const char *path, int flags, int *file, struct vt_file_header *header)
{
    *file = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*file >= 0 && pread(*file, header, sizeof *header, 0) == sizeof *header &&
        !memcmp(header->magic, VT_MAGIC, sizeof header->magic) && header->format_version == VT_FORMAT_VERSION)
        return true;
    if (*file >= 0)
        close(*file);
    return false;
}
