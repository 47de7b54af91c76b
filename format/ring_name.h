/* The names of rings (VT_RING_NAME), for who looks for them in a folder: the recorder and the analyzer. */
#ifndef VT_RING_NAME_H
#define VT_RING_NAME_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "vramtrace/ring.h"

struct vt_ring_name {
    unsigned user_id; /* as in the namespace of the process: it may be another one here */
    unsigned pid;
    unsigned long long number;
};

static inline bool vt_read_ring_name(const char *text, struct vt_ring_name *name)
{
    char again[VT_RING_PATH_BYTES];
    if (sscanf(text, "vramtrace.%u.%u.%llx.ring", &name->user_id, &name->pid, &name->number) != 3)
        return false;
    snprintf(again, sizeof again, VT_RING_NAME, name->user_id, name->pid, name->number);
    return !strcmp(again, text);
}

#endif
