/* What the hosts share: CUDA found at run time, and a book of every call that they make, which outlives them.
 *
 * run.py gives each run an empty book (HOST_BOOK, a file of HOST_SLOTS slots). Every process that calls CUDA
 * through these functions takes a slot. begun is raised before a call, done after it succeeded: so even of a
 * host that was killed in the middle it is known to one call for each thread what it did. Nothing here knows
 * of the recorder, or of the stand-in. */
#ifndef HOST_H
#define HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host_calls.h"

enum { HOST_SLOTS = 8192 };

struct host_slot {
    _Atomic int32_t pid;
    int32_t reserved;
    _Atomic uint64_t begun, done; /* calls of cuMemAlloc_v2, cuMemFree_v2 and of the framework's report */
};

/* One way of a program: `program WAY [ARGUMENT...]`. The arguments begin behind the way. */
struct host_way {
    const char *name;
    int (*run)(int count, char **arguments);
};
int host_main(int count, char **arguments, const struct host_way *ways, size_t way_count);
#define HOST_MAIN(ways)                                                                                      \
    int main(int count, char **arguments)                                                                    \
    {                                                                                                        \
        return host_main(count, arguments, ways, sizeof(ways) / sizeof *(ways));                             \
    }

#endif
