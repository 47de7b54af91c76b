/* Private to the command mcp: the traces that may be opened, and the tools. */
#ifndef VT_COMMAND_MCP_H
#define VT_COMMAND_MCP_H

#include <cjson/cJSON.h>

#include "command/command.h"

/* ---- mcp_traces.c ---- */

/* What was named on the command line, all links resolved. */
struct vt_mcp_root {
    char *path;
    bool is_folder; /* then every trace below it may be opened */
};

#define VT_MCP_KEPT 4u /* traces in memory */
struct vt_mcp_kept {
    char *path; /* NULL = empty */
    struct stat status;
    struct vt_loaded loaded;
    struct sqlite3 *database; /* NULL = not made yet */
    uint64_t used;            /* when: a counter */
};

struct vt_mcp_traces {
    struct vt_mcp_root *roots;
    size_t count;
    struct vt_mcp_kept kept[VT_MCP_KEPT];
    uint64_t uses;
    struct vt_mcp_outcome *outcomes; /* of traces that are over */
    size_t outcome_count, outcome_capacity;
    struct vt_mcp_job *job; /* the last that was asked for; NULL = none was */
};

/* How a run ended. */
struct vt_mcp_outcome {
    char *path, *command; /* the command is clean */
    char text[96];        /* "complete", "out of memory" */
    uint64_t peak_bytes;  /* in use on one device */
    uint64_t refusals;    /* times that memory ran out */
    int32_t rank;         /* -1 = none */
    struct stat status;
};

struct vt_mcp_listed {
    char *path, *name; /* the name: below its root, or of a named trace the last part of its path; clean */
    uint64_t bytes, start_ns;
};

/* An exit status, with a line on stderr for what cannot be read. */
int vt_mcp_traces_begin(const struct vt_command *command, const struct vt_arguments *arguments,
                        struct vt_mcp_traces *traces);
void vt_mcp_traces_end(struct vt_mcp_traces *traces);

/* All traces that may be opened, newest first. cut: the folders have more files than are looked at. -ENOMEM.
 */
#define VT_MCP_MAX_FILES 10000
struct vt_mcp_list {
    struct vt_mcp_listed *items;
    size_t count, capacity, looked_at;
    size_t forbidden; /* files and folders that may not be read */
    bool cut;
};
int vt_mcp_list_make(const struct vt_mcp_traces *traces, struct vt_mcp_list *list);
void vt_mcp_list_free(struct vt_mcp_list *list);
/* `path` below the folder that it is in; the last part of a named trace's. */
const char *vt_mcp_name(const struct vt_mcp_traces *traces, const char *path);

/* The path of the trace called `name`, NULL = the newest: the caller frees it. NULL with the reason in
 * `error`. */
char *vt_mcp_find(const struct vt_mcp_traces *traces, const char *name, char *error, size_t error_bytes);

/* The trace called `name`, NULL = the newest; read again if its file changed. It stays at least until
 * VT_MCP_KEPT - 1 others were opened. NULL with the reason in `error`. */
struct vt_mcp_kept *vt_mcp_open(struct vt_mcp_traces *traces, const char *name, char *error,
                                size_t error_bytes);
/* With each of its events, unless they are too many. */
#define VT_MCP_MAX_EVENTS UINT64_C(20000000)
struct vt_mcp_kept *vt_mcp_open_whole(struct vt_mcp_traces *traces, const char *name, char *error,
                                      size_t error_bytes);
/* vt_reach; a trace that cannot be read again is not kept. */
int vt_mcp_reach(struct vt_mcp_kept *kept, const struct vt_report_options *options, char *error,
                 size_t error_bytes);

/* ---- mcp_outcomes.c ---- */

/* How the listed run ended: read once, valid until the next call. *budget: bytes of files that may yet be
 * read. NULL for a file beyond it, or that cannot be read; -ENOMEM counts as that. */
const struct vt_mcp_outcome *vt_mcp_outcome(struct vt_mcp_traces *traces, const struct vt_mcp_listed *listed,
                                            uint64_t *budget);
void vt_mcp_outcomes_free(struct vt_mcp_traces *traces);
/* Whether two looks found the same file, unchanged. */
bool vt_mcp_same_file(const struct stat *a, const struct stat *b);

/* ---- mcp_job.c ---- */

struct vt_job;

/* How many bytes of traces one answer reads. */
#define VT_MCP_READ_AT_ONCE (160u << 20)

/* The job that a trace is of: all traces that were recorded at its time. Read once for all pages of an
 * answer, unless one of the files changed or is still recorded; valid until the next call. *left_out: traces
 * of that time that it lacks, since they are too large together; *forbidden: files and folders of the server
 * that may not be read, which may have some. NULL with the reason in `error`. */
const struct vt_job *vt_mcp_job_read(struct vt_mcp_traces *traces, const char *name, bool oom,
                                     size_t *left_out, size_t *forbidden, char *error, size_t error_bytes);
void vt_mcp_job_free(struct vt_mcp_traces *traces);

/* ---- mcp_tools.c ---- */

cJSON *vt_mcp_list_tools(void *context);
/* `context` is a struct vt_mcp_traces. */
cJSON *vt_mcp_call_tool(void *context, const char *name, const cJSON *arguments, bool *known);

#endif
