/* Which traces a command line means. */
#ifndef VT_COMMAND_TRACES_H
#define VT_COMMAND_TRACES_H

#include "command/arguments.h"
#include "vramtrace/format.h"

#include <stddef.h>
#include <sys/stat.h>

/* When recording began, CLOCK_REALTIME in ns; if the process ended before that, when the file was made. 0 =
 * no trace. */
uint64_t vt_trace_start(const char *path);
/* The same, and the file's header: zeros where there is none. */
uint64_t vt_read_start(const char *path, struct stat *status, struct vt_file_header *header);

/* If none is named, the newest *.vrt of the folder becomes the operand, and stderr says which. */
int vt_find_traces(struct vt_arguments *arguments);
/* A line on stderr if there is a newer trace of that name: a recorder whose "x.vrt" is taken writes
 * "x.1.vrt". */
void vt_warn_of_newer(const struct vt_arguments *arguments, const char *path);

/* TRACE or TRACE@MOMENT: the path, which the caller frees, and the moment, NULL = none.
 * Files and marks may have an @ in their names: the longest beginning that is a file is the trace. If no file
 * matches, the path ends before the first @. */
char *vt_split_moment(const char *operand, const char **moment);

struct vt_file {
    char *path; /* owned */
    dev_t device;
    ino_t inode;
    bool found; /* in a folder, not named */
};
struct vt_files {
    struct vt_file *items; /* owned; in order of the operands, rank 2 before rank 10 */
    size_t count, capacity;
    char **paths; /* owned: of the items, then NULL */
    bool once;    /* given: each file, however often it is named */
    bool by_name; /* given: of a folder, only files called *.vrt */
};
/* Adds the operands, and instead of a folder the traces in it and in its folders. An exit status, with a line
 * on stderr if it is not 0. The caller frees them either way. */
int vt_files_find(const struct vt_arguments *arguments, struct vt_files *files);
/* ... and makes them the operands, if one of these is a folder. */
int vt_files_to_operands(struct vt_arguments *arguments, struct vt_files *files);
void vt_files_free(struct vt_files *files);
bool vt_is_folder(const char *path); /* NULL is none */

#endif
