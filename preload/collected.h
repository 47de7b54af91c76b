/* The search for tensors among all objects of the interpreter's collector. In C, so that no other thread of
 * the host runs while it holds them: one that makes a tuple bit by bit fails when somebody else has it too.
 *
 * Threads: one that holds the GIL. */
#ifndef VT_COLLECTED_H
#define VT_COLLECTED_H

#include "python_api.h"

/* Before the first search: the interpreter's functions, which stay the caller's. */
void vt_collected_set_api(const struct vt_python_api *api);

/* As a function of Python's, find_unreached(get_objects, get_referents, class, seen, plain, generations,
 * deadline_ns, unreached, holders): adds to the list `unreached` each object of exactly this class whose id
 * is not in the set `seen`, and to `holders` a pair (object of that kind, what refers to it) for each
 * reference from objects whose class's id is not in `plain`. False if CLOCK_MONOTONIC came to deadline_ns;
 * NULL if an exception stands. */
void *vt_collected_find_unreached(void *self, void *arguments);

#endif
