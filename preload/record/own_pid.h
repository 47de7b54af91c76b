/* Which of NVML's processes this one is. NVML counts pids as the kernel's outermost namespace does, or as
 * that of who asks; it may leave processes out; and in a container a number of the one namespace may be
 * another process's in the other. Writer thread, or that of NVML. */
#ifndef VT_OWN_PID_H
#define VT_OWN_PID_H

#include <stdbool.h>
#include <stdint.h>

enum { VT_OWN_PIDS = 32 }; /* as deep as the kernel nests namespaces */

struct vt_own_pid {
    uint32_t pids[VT_OWN_PIDS]; /* of this process: as /proc counts, then in the namespaces within */
    unsigned count;
    bool is_nested; /* the process may be in a pid namespace of its own */
};

/* True for the number of a process that /proc has. */
typedef bool vt_pid_exists(uint32_t pid);
bool vt_pid_exists_in_proc(uint32_t pid);

void vt_own_pid_find(struct vt_own_pid *own);
/* From the text of /proc/self/status and the name of the namespace ("pid:[4026531836]"), "" = not known. */
void vt_own_pid_parse(const char *status, const char *name_space, uint32_t pid, struct vt_own_pid *own);

/* Its place in a list, UINT32_MAX if that is not sure. */
uint32_t vt_own_pid_place(const struct vt_own_pid *own, const uint32_t *pids, uint32_t count,
                          vt_pid_exists *exists);

#endif
