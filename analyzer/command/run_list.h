/* The list of a run's traces: in memory, appended to by their recorders. */
#ifndef VT_COMMAND_RUN_LIST_H
#define VT_COMMAND_RUN_LIST_H

#include <stdbool.h>
#include <sys/types.h>

struct vt_file_header;

struct vt_run_trace {
    int pid, of_job;
    const char *path;
};

/* The caller frees it with vt_run_traces_free. */
struct vt_run_traces {
    char *text;
    struct vt_run_trace *items;
    size_t count;
    bool incomplete; /* one could not be made, and a line said why; or it is not there any more */
};

/* Makes the list to which the recorders append, and its variable. A descriptor, or -errno. */
int vt_run_make_list(void);
/* A `run` around this one, with the same standard error, prints the line. */
bool vt_run_is_inner(void);
/* The command was not started, and a line said why: in the child. */
void vt_run_not_started(int list);
/* Reads the list from there on, without traces that are gone. */
void vt_run_read_list(int list, off_t from, struct vt_run_traces *traces);
void vt_run_traces_free(struct vt_run_traces *traces);
/* Opens a trace for as long as the caller keeps *file; false: it is none. */
bool vt_run_read_header(const char *path, int flags, int *file, struct vt_file_header *header);

#endif
