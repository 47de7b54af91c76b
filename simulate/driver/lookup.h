/* One line per exported function and the CUDA version that brought it; generated, ended by a NULL name. */
#ifndef STANDIN_LOOKUP_H
#define STANDIN_LOOKUP_H

#include <stdbool.h>

struct standin_entry {
    const char *name; /* without suffixes */
    int version;      /* 3020 = CUDA 3.2 */
    bool per_thread;  /* the _ptsz or _ptds copy */
    void *function;
};
extern const struct standin_entry standin_entries[];

#endif
