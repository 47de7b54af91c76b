/* One inspection: runs the scripts once, unnoticed, on a thread of ours. Threads: one that holds the GIL,
 * one inspection at a time, once vt_python_api_find has succeeded. */
#ifndef VT_INSPECTION_THREAD_H
#define VT_INSPECTION_THREAD_H

#include <stdbool.h>
#include <stdint.h>

struct vt_inspection_run {
    /* Set by the caller: */
    uint64_t budget_ns, census_ns;  /* CPU time; budget 0 = no limit; census 0 = none */
    bool leaves_graphs;             /* reads no gradients */
    bool on_own_thread;             /* the calling thread is already ours, so no further one is made */
    void (*prepare)(void *globals); /* called with inspect.py's namespace before that runs */

    /* The result: */
    const char *text; /* in `result`, or in `failure`, a line that says why there is no result */
    intptr_t bytes;
    void *result;                /* a Python string, which the caller drops; NULL = failed */
    uint64_t processor_ns;       /* CPU time that it took */
    uint64_t once_ns;            /* the part of it that later ones need not: code was compiled */
    bool has_failed, is_refused; /* refused: the code could not be compiled (scripts.h) */
    char failure[256];

    /* Python objects, used by inspection_thread.c: */
    void *stopped;   /* the state of the thread that waits for the inspection */
    void *variables; /* of the running frames: file, function, name and value in turn */
    void *handled;   /* the exception that the host is handling, or None */
    void *context;   /* the thread's context variables, or None */
};

void vt_inspection_run(struct vt_inspection_run *run);

/* Notes that the calling thread makes graphs. Needs no lock; called for each block that it allocates. */
void vt_inspection_note_graph(void);

/* Whether another living thread than the calling one makes graphs. PyTorch lets go of the GIL while it frees
 * a gradient that is still in its place: who reads it at that moment crashes. Nor does it hold it while it
 * changes what a tensor's graph is. */
bool vt_inspection_graphs_elsewhere(void);

/* Whether the module is in sys.modules; importing it would be noticed. */
bool vt_is_imported(const char *module);

#endif
