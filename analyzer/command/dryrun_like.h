/* A dry run of what was recorded: its command, folder, GPU and allocator. */
#ifndef VT_COMMAND_DRYRUN_LIKE_H
#define VT_COMMAND_DRYRUN_LIKE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct vt_like {
    const char *folder;   /* of its process; NULL = not known */
    char **words;         /* of the command; NULL ends them */
    const char *gpu_name; /* as the driver calls it */
    uint64_t total_bytes; /* of the GPU */
    uint64_t used_bytes;  /* the recorded peak in use */
    uint32_t step;        /* of that peak; 0 = before the first */
    bool ran_out;         /* the recorded run did */
    int rank, world;      /* -1 and 0: not of a job */
};

/* Reads a trace, and sets what its process's environment had of PyTorch's allocator.
 * 0, or a line was said and the exit status is returned. What it gives lives as long as the process. */
int vt_like_read(const char *path, struct vt_like *like);
/* One line: how near the peak of the dry run is to the recorded one. */
void vt_like_compare(const struct vt_like *like, uint64_t used_bytes, FILE *out);

#endif
