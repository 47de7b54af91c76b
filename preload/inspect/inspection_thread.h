/* One inspection: inspect.py and census.py run once, unnoticed, on a thread of ours. Threads: one that holds
 * the GIL, one inspection at a time, once vt_python_api_find has succeeded. */
#ifndef VT_INSPECTION_THREAD_H
#define VT_INSPECTION_THREAD_H

#include <stdbool.h>
#include <stdint.h>

struct vt_inspection_run {
    /* Given. */
    uint64_t started_ns;           /* CLOCK_MONOTONIC: the program waits from then on */
    uint64_t budget_ns, census_ns; /* budget 0 = no limit; census 0 = none */
    bool on_own_thread; /* the calling thread is not one of the host's, so that no further one is made */
    void (*prepare)(void *globals); /* called with inspect.py's, before it runs */

    /* The result. */
    const char *text; /* in `result` or `failure`: a line that says why there is no result */
    intptr_t bytes;
    void *result;                /* a Python string that the caller drops; NULL = it failed */
    uint64_t processor_ns;       /* that it took */
    bool has_failed, is_refused; /* refused: not even compiled (code.h) */
    char failure[256];

    /* Python objects, for inspection_thread.c. */
    void *stopped;   /* the state of the thread that waits for the inspection */
    void *variables; /* of the running frames: function, name, value in turn */
    void *handled;   /* an exception that the host is handling, or None */
    void *context;   /* the thread's context variables, or None */
};

void vt_inspection_run(struct vt_inspection_run *run);

/* In sys.modules: an import of ours would show. */
bool vt_is_imported(const char *module);

#endif
