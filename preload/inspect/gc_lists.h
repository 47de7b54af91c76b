/* The interpreter's garbage collector, read where it keeps its lists: its own functions raise audit events
 * and make lists of all objects.
 *
 * Threads: one that holds the GIL, once vt_python_api_find has succeeded; vt_gc_in_child needs
 * neither. */
#ifndef VT_GC_LISTS_H
#define VT_GC_LISTS_H

#include <stdint.h>

#include "inspect/python_api.h"

/* Finds its lists. False if they are not where they should be: then nothing else may be called. */
bool vt_gc_find(void);

/* The interpreter ends, and its memory may be freed soon: nothing of it is read from now on. */
void vt_gc_end(void);

/* How often the collector has run that generation, 0 to 2, so far. */
uint64_t vt_gc_runs(unsigned generation);

/* Objects made until vt_gc_resume neither begin a collection nor bring the host's next one forward. In
 * a child forked meanwhile, vt_gc_in_child switches its collector on again. */
void vt_gc_pause(void);
void vt_gc_resume(void);
void vt_gc_in_child(void);

/* Calls `visit` for all that the object refers to, as gc.get_referents does, until a result is not 0. */
typedef int vt_gc_visit(void *referent, void *context);
int vt_gc_visit_referents(void *object, vt_gc_visit visit, void *context);

/* A search among all objects that the collector knows. */
struct vt_gc_search {
    void *classes;        /* a tuple: objects of exactly one of these classes are wanted … */
    void *seen;           /* … whose ids are not in this set */
    void *plain;          /* a set: ids of classes whose objects hold nothing */
    int generations;      /* to search, from the youngest */
    uint64_t deadline_ns; /* CLOCK_MONOTONIC */
    void *unreached;      /* a list that they are added to */
    void
        *holders; /* a list: for each reference to one of them, that object, then the one that refers to it */
};

/* 1 = done, 0 = the deadline passed, -1 = an exception is set. No other Python code runs meanwhile. */
int vt_gc_find_unreached(const struct vt_gc_search *search);

/* What refers to the objects of the list `unreached`: only fills `holders`. */
int vt_gc_find_holders(const struct vt_gc_search *search);

#endif
