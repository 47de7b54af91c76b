/* The trace file: a header, and chunks appended to it. It is written with calls and never mapped, so no
 * store of the host waits for a disk, and truncating or removing the file kills nobody. Threads: the
 * writer's. */
#ifndef VT_TRACE_FILE_H
#define VT_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "file_io.h"
#include "options.h"
#include "vramtrace/format.h"

struct vt_trace_file {
    int descriptor; /* -1 = none; the host may close it and reuse its number */
    uint64_t device, inode;
    char name[4096];              /* as the user gave it */
    char path[4096];              /* absolute, or the name if the absolute path is not known */
    uint64_t end_limit;           /* chunks must end before this; 0 = no limit */
    struct vt_file_header header; /* written to the file by vt_trace_file_write_header */
};

/* Creates the file under a new name, and fills in `header` except for the ring. Nothing is written yet.
 * Returns 0 or -errno. */
int vt_trace_file_create(struct vt_trace_file *file, const struct vt_options *options);

/* Opens another process's trace. Returns 0 or -errno; -EBADMSG: it has no complete header of this format
 * version. */
int vt_trace_file_open(struct vt_trace_file *file, const char *path);

int vt_trace_file_write_header(struct vt_trace_file *file);

/* Its path without links, as the kernel knows it. */
void vt_trace_file_real_path(const struct vt_trace_file *file, char *path, size_t bytes);

/* True if its path still leads to this file. */
bool vt_trace_file_is_at_its_path(const struct vt_trace_file *file);

/* True if somebody has truncated the file: some of what was appended is gone. */
bool vt_trace_file_was_cut(const struct vt_trace_file *file);

/* Appends a chunk, then writes the header that makes it count. Returns 0 or -errno; -EOVERFLOW: it would
 * reach past end_limit. */
int vt_trace_file_append(struct vt_trace_file *file, const void *chunk, size_t bytes, uint64_t ring_position);

/* Moves to the new region: copies the rest of the old one, [rest_offset, old->end), to to_offset, switches
 * the header, and gives the old region's bytes back to the file system. Returns 0 or -errno. */
struct vt_trace_region {
    uint64_t begin, end; /* file offsets of its chunks */
};
int vt_trace_file_go_over(struct vt_trace_file *file, const struct vt_trace_region *old,
                          const struct vt_trace_region *new, uint64_t rest_offset, uint64_t to_offset);

/* Truncates the file to the end of its chunks. */
void vt_trace_file_trim(struct vt_trace_file *file);

void vt_trace_file_close(struct vt_trace_file *file);

/* Moves a descriptor to a high number, and returns that. */
int vt_move_descriptor_up(int file);

#endif
