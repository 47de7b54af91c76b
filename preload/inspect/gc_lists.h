/* The interpreter's garbage collector: its lists of objects, read directly, since its own functions raise
 * audit events and make lists of all objects.
 *
 * Threads: one that holds the GIL, once vt_python_api_find has succeeded; vt_gc_in_child needs neither. */
#ifndef VT_GC_LISTS_H
#define VT_GC_LISTS_H

#include <stdint.h>

#include "inspect/python_api.h"

/* Finds the lists. False if they are not where they should be: then nothing else here may be called. */
bool vt_gc_find(void);

/* The interpreter is ending, and its memory may be freed soon: it is not read any more. */
void vt_gc_end(void);

/* How often the collector has run for this generation, 0 to 2. */
uint64_t vt_gc_runs(unsigned generation);

/* Objects made between pause and resume neither start a collection nor bring the host's next one forward. In
 * a child forked in between, vt_gc_in_child switches the collector on again. */
void vt_gc_pause(void);
void vt_gc_resume(void);
void vt_gc_in_child(void);

/* Calls `visit` for everything that the object refers to, like gc.get_referents, until a call does not
 * return 0. */
typedef int vt_gc_visit(void *referent, void *context);
int vt_gc_visit_referents(void *object, vt_gc_visit visit, void *context);

/* A search among all objects that the collector knows. */
struct vt_gc_search {
    void *classes;        /* a tuple: objects whose class is exactly one of these are searched for … */
    void *seen;           /* … unless their id is in this set */
    void *plain;          /* a set: ids of classes whose objects hold no others */
    int generations;      /* how many to search, from the youngest */
    uint64_t deadline_ns; /* CPU time of the thread */
    void *unreached;      /* a list that the objects found are added to */
    void *holders; /* a list: for each reference to one of them, that object and then the referring one */
};

/* Fills `unreached`. Returns 1 = done, 0 = the deadline passed, -1 = an exception is set. No other Python
 * code runs meanwhile. */
int vt_gc_find_unreached(const struct vt_gc_search *search);

/* Fills `holders` with what refers to the objects in `unreached`. Returns the same. */
int vt_gc_find_holders(const struct vt_gc_search *search);

#endif
