/* What tells this process from all others, and whether another process is gone. Threads: the writer's. */
#ifndef VT_PROCESS_IDENTITY_H
#define VT_PROCESS_IDENTITY_H

#include <stdbool.h>

#include "vramtrace/format.h"

/* Fields that cannot be found out are 0. */
void vt_identify_process(struct vt_process_identity *identity);

/* True only if this is certain: a process of the same user, boot and namespaces as `own` has ended, or has
 * become another program. */
bool vt_process_is_gone(const struct vt_process_identity *identity, const struct vt_process_identity *own);

/* Whether a process with this pid has the file of this path in memory. False if that cannot be seen. */
bool vt_process_maps(uint32_t pid, const char *path);

/* A random number that no other trace has. */
void vt_make_identity(uint8_t identity[16]);

#endif
