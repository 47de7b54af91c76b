/* What must not leave the house (--redact): arguments of the own command, the folders of paths, hosts, values
 * that launchers set. Each text gets the same other one everywhere, so that reports compare and group as
 * before. Without vt_redact_begin nothing changes. Threads: begin first. The texts live as long as the arena.
 */
#ifndef VT_TRACE_REDACT_H
#define VT_TRACE_REDACT_H

#include <stddef.h>

struct vt_arena;

void vt_redact_begin(void);

/* "/…1a2b/train.py": a path without its folder. Those of installed packages and of the system say nothing of
 * the user, and stay. */
const char *vt_redact_path(struct vt_arena *arena, const char *path);
/* "/…1a2b": a folder, as it is in the paths of its files. */
const char *vt_redact_folder(struct vt_arena *arena, const char *folder);
/* "…1a2b"; numbers, also several ("0,1"), stay. */
const char *vt_redact_value(struct vt_arena *arena, const char *value);
/* "host1a2b", in its place. */
void vt_redact_host(char *host, size_t bytes);
/* Leaves the program and its script or module: the rest becomes one "…". Returns how many are left. */
size_t vt_redact_arguments(struct vt_arena *arena, const char **arguments, size_t count);
/* Bytes of a text that may be told: of a dry run's mark with the exception that ended it, up to its class;
 * else all. */
#define VT_ENDED_BY "vramtrace: ended by "
size_t vt_redact_text(const char *text, size_t bytes);
/* The last part of a path, which is in it. */
const char *vt_redact_name(const char *path);

#endif
