/* The interpreter's collector, read where it keeps its lists: what it would tell by itself raises audit
 * events and makes lists of all objects.
 *
 * Threads: one that holds the GIL, but for what is said. */
#ifndef VT_COLLECTED_H
#define VT_COLLECTED_H

#include <stdint.h>

#include "inspect/python_api.h"

/* Finds its lists. False if they are not where they should be: then nothing else may be called. */
bool vt_collected_find(const struct vt_python_api *python);

/* What is made until vt_collected_resume neither begins a collection nor brings the host's next one forward.
 * A child that is forked meanwhile has its collector (vt_collected_in_child, after the fork). */
void vt_collected_pause(void);
void vt_collected_resume(void);
void vt_collected_in_child(void);

/* Calls `visit` for all that the object refers to, as gc.get_referents does; it ends with a result that is
 * not 0. */
typedef int vt_collected_visit(void *referent, void *context);
int vt_collected_visit_referents(void *object, vt_collected_visit visit, void *context);

/* A search among all objects that the collector knows. */
struct vt_collected_search {
    const void *class;    /* wanted: objects of exactly this class … */
    void *seen, *plain;   /* … whose ids are not in the set `seen`; what has a class whose id is in `plain`
                             holds nothing */
    int generations;      /* that are searched, from the youngest */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    void *unreached;      /* a list, to which they are added */
    void *holders;        /* a list: for each reference to one of them, that one, and who refers to it */
};

/* 1 = done, 0 = it came to its deadline, -1 = an exception stands. Nobody else runs meanwhile. */
int vt_collected_find_unreached(const struct vt_collected_search *search);

#endif
