#include "collected.h"

#include <stdint.h>
#include <string.h>

#include "clock.h"
#include "python_layout.h"

enum { CHECK_EVERY = 256, GENERATIONS_MAXIMUM = 3, ARGUMENTS = 9 };

typedef void object; /* PyObject */

static const struct vt_python_api *python;

struct search {
    object *get_objects, *get_referents, *class, *seen, *plain, *generations, *unreached, *holders;
    uint64_t deadline_ns;
    object *objects[GENERATIONS_MAXIMUM]; /* lists of all there are, by generation */
    int visited;
};

/* Of a visit; the search ends with all but DONE. */
enum outcome { DONE, LATE, FAILED };
typedef enum outcome visit(struct search *search, object *found);

void vt_collected_set_api(const struct vt_python_api *api)
{
    python = api;
}

static object *class_of(const object *any)
{
    object *class;
    memcpy(&class, (const char *)any + VT_OBJECT_TYPE, sizeof class);
    return class;
}

static bool has_id(object *set, object *any)
{
    object *id = python->PyLong_FromVoidPtr(any);
    bool found = id && python->PySet_Contains(set, id) == 1;
    if (id)
        python->Py_DecRef(id);
    return found;
}

static bool is_unreached(const struct search *search, object *any)
{
    return class_of(any) == search->class && !has_id(search->seen, any);
}

static enum outcome note_unreached(struct search *search, object *any)
{
    return is_unreached(search, any) && python->PyList_Append(search->unreached, any) ? FAILED : DONE;
}

static enum outcome note_holder(struct search *search, object *holder)
{
    if (holder == search->unreached || holder == search->holders || has_id(search->plain, class_of(holder)))
        return DONE;
    object *referents = python->PyObject_CallFunctionObjArgs(search->get_referents, holder, NULL);
    enum outcome outcome = referents ? DONE : FAILED;
    for (intptr_t i = 0; outcome == DONE && i < python->PyList_Size(referents); i++) {
        object *held = python->PyList_GetItem(referents, i);
        if (!is_unreached(search, held))
            continue;
        object *pair = python->PyTuple_Pack(2, held, holder);
        if (!pair || python->PyList_Append(search->holders, pair))
            outcome = FAILED;
        if (pair)
            python->Py_DecRef(pair);
    }
    if (referents)
        python->Py_DecRef(referents);
    return outcome;
}

static enum outcome visit_all(struct search *search, visit visit)
{
    for (int generation = 0; generation < GENERATIONS_MAXIMUM && search->objects[generation]; generation++) {
        object *list = search->objects[generation];
        for (intptr_t i = 0, count = python->PyList_Size(list); i < count; i++) {
            enum outcome outcome = visit(search, python->PyList_GetItem(list, i));
            if (outcome == DONE && ++search->visited % CHECK_EVERY == 0 &&
                vt_clock_ns(CLOCK_MONOTONIC) > search->deadline_ns)
                outcome = LATE;
            if (outcome != DONE)
                return outcome;
        }
    }
    return DONE;
}

static enum outcome search_all(struct search *search)
{
    for (intptr_t i = 0; i < python->PyTuple_Size(search->generations) && i < GENERATIONS_MAXIMUM; i++) {
        search->objects[i] = python->PyObject_CallFunctionObjArgs(
            search->get_objects, python->PyTuple_GetItem(search->generations, i), NULL);
        if (!search->objects[i])
            return FAILED;
    }
    enum outcome outcome = visit_all(search, note_unreached);
    if (outcome == DONE && python->PyList_Size(search->unreached))
        outcome = visit_all(search, note_holder);
    return outcome;
}

void *vt_collected_find_unreached(void *self, void *arguments)
{
    object *given[ARGUMENTS];
    (void)self;
    for (int i = 0; i < ARGUMENTS; i++)
        if (!(given[i] = python->PyTuple_GetItem(arguments, i)))
            return NULL;
    struct search search = {.get_objects = given[0],
                            .get_referents = given[1],
                            .class = given[2],
                            .seen = given[3],
                            .plain = given[4],
                            .generations = given[5],
                            .deadline_ns = python->PyLong_AsUnsignedLong(given[6]),
                            .unreached = given[7],
                            .holders = given[8]};
    enum outcome outcome = search_all(&search);
    for (int i = 0; i < GENERATIONS_MAXIMUM; i++)
        if (search.objects[i])
            python->Py_DecRef(search.objects[i]);
    return outcome == FAILED ? NULL : python->PyBool_FromLong(outcome == DONE);
}
