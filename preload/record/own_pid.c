#include "record/own_pid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_io.h"

/* The outermost namespace, the same number since Linux 3.8. */
#define OUTERMOST "pid:[4026531836]"

bool vt_pid_exists_in_proc(uint32_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%u", pid);
    return access(path, F_OK) == 0;
}

void vt_own_pid_parse(const char *status, const char *name_space, uint32_t pid, struct vt_own_pid *own)
{
    const char *line = strstr(status, "\nNSpid:");
    char *end;
    *own = (struct vt_own_pid){.is_nested = strcmp(name_space, OUTERMOST) != 0};
    line = line ? line + strlen("\nNSpid:") : "";
    while (own->count < VT_OWN_PIDS && *line && *line != '\n') {
        const unsigned long number = strtoul(line, &end, 10);
        if (end == line || !number || number > UINT32_MAX)
            break;
        own->pids[own->count++] = (uint32_t)number;
        line = end;
    }
    if (!own->count)
        own->pids[own->count++] = pid;
}

void vt_own_pid_find(struct vt_own_pid *own)
{
    char status[4096], name_space[64];
    status[vt_read_file("/proc/self/status", status, sizeof status - 1)] = 0;
    const ssize_t length = readlink("/proc/self/ns/pid", name_space, sizeof name_space - 1);
    name_space[length > 0 ? length : 0] = 0;
    vt_own_pid_parse(status, name_space, (uint32_t)getpid(), own);
}

static bool is_own(const struct vt_own_pid *own, uint32_t pid)
{
    for (unsigned i = 0; i < own->count; i++)
        if (own->pids[i] == pid)
            return true;
    return false;
}

/* In a nested namespace a listed pid may equal ours by chance, if the list counts as the host does. Then the
 * list also has our real pid there, and /proc hardly knows all its pids. */
uint32_t vt_own_pid_place(const struct vt_own_pid *own, const uint32_t *pids, uint32_t count,
                          vt_pid_exists *exists)
{
    uint32_t place = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_own(own, pids[i]))
            continue;
        if (place != UINT32_MAX)
            return UINT32_MAX;
        place = i;
    }
    if (place == UINT32_MAX || !own->is_nested)
        return place;
    for (uint32_t i = 0; i < count; i++)
        if (!exists(pids[i]))
            return UINT32_MAX;
    return pids[place] == own->pids[0] ? place : UINT32_MAX;
}
