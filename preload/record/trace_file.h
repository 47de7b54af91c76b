/* The trace file: a header, and chunks appended to it, all written by calls; it is never mapped, so no store
 * of the host waits for a disk, and a file that is cut or removed kills nobody. Threads: the writer's. */
#ifndef VT_TRACE_FILE_H
#define VT_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "vramtrace/format.h"

struct vt_trace_file {
    int descriptor; /* -1 = none; the host may close it and reuse its number */
    uint64_t device, inode;
    char name[4096];              /* as the user gave it */
    char path[4096];              /* absolute; the name where that is not known */
    uint64_t end_limit;           /* chunks end there at the latest; 0 = anywhere */
    struct vt_file_header header; /* what the file has after vt_trace_file_write_header */
};

/* Makes the file under a name that did not exist, and fills `header` but for the ring; nothing is written
 * yet. Returns 0 or -errno. */
int vt_trace_file_create(struct vt_trace_file *file, const struct vt_options *options);

/* Opens the trace of another process. Returns 0 or -errno; -EBADMSG: it has no whole header of this format.
 */
int vt_trace_file_open(struct vt_trace_file *file, const char *path);

int vt_trace_file_write_header(struct vt_trace_file *file);

/* True if its path still leads to it. */
bool vt_trace_file_is_at_its_path(const struct vt_trace_file *file);

/* True if somebody has cut the file: what was appended is gone, wholly or in part. */
bool vt_trace_file_was_cut(const struct vt_trace_file *file);

/* Appends a chunk, then writes the header, which says so. A chunk that is not whole is none. Returns 0 or
 * -errno; -EOVERFLOW: it would go beyond end_limit. */
int vt_trace_file_append(struct vt_trace_file *file, const void *chunk, size_t bytes, uint64_t ring_position);

/* From now on the chunks are in the new region: what is not there yet, [rest_offset, old->end), is copied to
 * to_offset. The old region's bytes are given back to the file system. Returns 0 or -errno. */
struct vt_trace_region {
    uint64_t begin, end; /* of chunks: offsets in the file */
};
int vt_trace_file_go_over(struct vt_trace_file *file, const struct vt_trace_region *old,
                          const struct vt_trace_region *new, uint64_t rest_offset, uint64_t to_offset);

/* Cuts off what is behind the chunks. */
void vt_trace_file_trim(struct vt_trace_file *file);

void vt_trace_file_close(struct vt_trace_file *file);

/* Writes all. Returns 0 or -errno. */
int vt_write_all(int descriptor, const void *from, size_t bytes, uint64_t offset);

/* Gives a descriptor a high number; closes the other. */
int vt_move_descriptor_up(int file);

#endif
