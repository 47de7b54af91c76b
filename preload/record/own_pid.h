/* Which process in NVML's list this one is. NVML counts pids as the kernel's outermost namespace does, or as
 * the caller's does. It may leave processes out, and in a container the same number may mean different
 * processes in the two namespaces. Threads: the writer's, or NVML's. */
#ifndef VT_OWN_PID_H
#define VT_OWN_PID_H

#include <stdbool.h>
#include <stdint.h>

enum { VT_OWN_PIDS = 32 }; /* the kernel nests namespaces no deeper */

struct vt_own_pid {
    uint32_t pids[VT_OWN_PIDS]; /* of this process: as /proc counts, then in the nested namespaces */
    unsigned count;
    bool is_nested; /* the process may be in a pid namespace of its own */
};

/* True if /proc has a process with this pid. */
typedef bool vt_pid_exists(uint32_t pid);
bool vt_pid_exists_in_proc(uint32_t pid);

void vt_own_pid_find(struct vt_own_pid *own);
/* Parses the text of /proc/self/status and the name of the namespace ("pid:[4026531836]"; "" = not known). */
void vt_own_pid_parse(const char *status, const char *name_space, uint32_t pid, struct vt_own_pid *own);

/* This process's index in `pids`; UINT32_MAX if that is not certain. */
uint32_t vt_own_pid_place(const struct vt_own_pid *own, const uint32_t *pids, uint32_t count,
                          vt_pid_exists *exists);

#endif
