#include "inspect/script_functions.h"

#include <string.h>

#include "clock.h"
#include "inspect/gc_lists.h"
#include "inspect/jax_buffers.h"
#include "record/live_blocks.h"
#include "record/session.h"
#include "stacks/python_read.h"

typedef void object; /* PyObject */

static const struct vt_python_api *const python = &vt_python_api;

/* Not the time module's clock, which programs' tests replace. */
static object *processor_ns(object *self, object *arguments)
{
    (void)self, (void)arguments;
    return python->PyLong_FromUnsignedLong(vt_clock_ns(CLOCK_THREAD_CPUTIME_ID));
}

/* The builtin id raises an audit event. */
static object *id(object *self, object *any)
{
    (void)self;
    return python->PyLong_FromVoidPtr(any);
}

/* collections(generation) */
static object *collections(object *self, object *generation)
{
    (void)self;
    return python->PyLong_FromUnsignedLong(vt_gc_runs((unsigned)python->PyLong_AsUnsignedLong(generation)));
}

static int append(object *referent, void *list)
{
    return python->PyList_Append(list, referent);
}

/* referents(object): a list, like gc.get_referents. */
static object *referents(object *self, object *any)
{
    object *list = python->PyList_New(0);
    (void)self;
    if (list && vt_gc_visit_referents(any, append, list)) {
        python->Py_DecRef(list);
        list = NULL;
    }
    return list;
}

/* ---- attributes ---- */

/* From 3.11 on an object's attributes are at first stored as an array of values next to it; its class has
 * their names. Where they are differs between versions. */
enum { MANAGED_DICT = 1 << 4, INLINE_VALUES = 1 << 2 }; /* bits of tp_flags; the second from 3.13 on */
enum { DICT_WORD = -3, VALUES_WORD_3_11 = -4 };         /* words before the object */
enum { VALID_3_13 = 3, VALUES_3_13 = 8 };               /* offsets in the values */
enum {
    KEYS_INDEX_BITS = 9,
    KEYS_KIND = 10,
    KEYS_COUNT = 24,
    KEYS_INDICES = 32,
    KEYS_SPLIT = 2,
    ENTRY_BYTES = 16
};

static object *new_reference(const void *found)
{
    object *kept = found ? (object *)found : python->none;
    python->Py_IncRef(kept);
    return kept;
}

/* Makes a dict from the values and the class's names, which are in the same order. */
static object *copy_values(const char *type, const char *values)
{
    const char *keys = vt_pointer_at(type, vt_python_known()->layout->type_cached_keys);
    object *copy = keys && keys[KEYS_KIND] == KEYS_SPLIT ? python->PyDict_New() : new_reference(NULL);
    if (!copy || copy == python->none)
        return copy;
    const char *entries = keys + KEYS_INDICES + ((size_t)1 << keys[KEYS_INDEX_BITS]);
    for (intptr_t i = 0, count = (intptr_t)vt_pointer_at(keys, KEYS_COUNT); i < count; i++) {
        const char *name = vt_pointer_at(entries, i * ENTRY_BYTES), *value = vt_pointer_at(values, i * 8);
        if (name && value && python->PyDict_SetItem(copy, (object *)name, (object *)value)) {
            python->Py_DecRef(copy);
            return NULL;
        }
    }
    return copy;
}

/* own_attributes(object): a new reference to its dict, or to a copy of what would be in it; None if it has
 * no attributes. Reading object.__dict__ would give an object without a dict one, which would stay. */
static object *own_attributes(object *self, object *any)
{
    const struct vt_python_layout *layout = vt_python_known()->layout;
    const char *type = vt_pointer_at(any, layout->object_type);
    (void)self;
    const unsigned long flags = (unsigned long)vt_pointer_at(type, layout->type_flags);
    const unsigned minor = layout->minor;
    if (minor < 11 || !(flags & MANAGED_DICT)) {
        object **place = python->_PyObject_GetDictPtr(any);
        return new_reference(place ? *place : NULL);
    }
    const char *dict = vt_pointer_at(any, DICT_WORD * 8L), *values = NULL;
    if (minor == 11) {
        values = dict ? NULL : vt_pointer_at(any, VALUES_WORD_3_11 * 8L);
    } else if (minor == 12 && (uintptr_t)dict & 1) {
        values = dict + 1;
        dict = NULL;
    } else if (minor >= 13 && !dict && flags & INLINE_VALUES) {
        values = (const char *)any + (intptr_t)vt_pointer_at(type, layout->type_basic_bytes);
        values = values[VALID_3_13] ? values + VALUES_3_13 : NULL;
    }
    return values ? copy_values(type, values) : new_reference(dict);
}

/* ---- frames and functions ---- */

bool vt_script_add_variable(void *variables, const struct vt_python_local *local)
{
    return python->PyList_Append(variables, (object *)local->file) == 0 &&
           python->PyList_Append(variables, (object *)local->function) == 0 &&
           python->PyList_Append(variables, (object *)local->name) == 0 &&
           python->PyList_Append(variables, (object *)local->value) == 0;
}

static object *list_variables(void (*visit)(const void *, vt_python_local_visit, void *), object *any)
{
    object *variables = python->PyList_New(0);
    if (variables)
        visit(any, vt_script_add_variable, variables);
    return variables;
}

/* frame_variables(frame): a list with file, function, name and value of each variable in turn. */
static object *frame_variables(object *self, object *frame)
{
    (void)self;
    return list_variables(vt_python_visit_frame, frame);
}

/* generator_variables(generator or coroutine): the same. */
static object *generator_variables(object *self, object *generator)
{
    (void)self;
    return list_variables(vt_python_visit_generator, generator);
}

/* Appends the item and drops its reference. */
static bool append_own(object *list, object *item)
{
    bool done = item && python->PyList_Append(list, item) == 0;
    vt_python_drop(item);
    return done;
}

static bool append_or_none(object *list, object *borrowed)
{
    return python->PyList_Append(list, borrowed ? borrowed : python->none) == 0;
}

static bool append_names(object *parts, object *code, object *closure)
{
    const struct vt_python_layout *layout = vt_python_known()->layout;
    object *names = (object *)vt_pointer_at(code, layout->code_local_names);
    if (!append_own(parts, python->PyTuple_GetSlice(names, 0, vt_int_at(code, layout->code_argument_count))))
        return false;
    if (layout->code_free_names)
        return append_or_none(parts, (object *)vt_pointer_at(code, layout->code_free_names));
    intptr_t all = python->PyTuple_Size(names), free = closure ? python->PyTuple_Size(closure) : 0;
    return append_own(parts, python->PyTuple_GetSlice(names, all - free, all));
}

/* function_parts(function): the names of its arguments and of its closure's cells, the closure, its
 * defaults, its keyword defaults, its attributes; the last four may be None. Reading them as attributes
 * would raise audit events, and create missing ones. */
static object *function_parts(object *self, object *function)
{
    object *parts = python->PyList_New(0), *closure = python->PyFunction_GetClosure(function);
    object **dict = python->_PyObject_GetDictPtr(function);
    (void)self;
    if (parts && append_names(parts, python->PyFunction_GetCode(function), closure) &&
        append_or_none(parts, closure) && append_or_none(parts, python->PyFunction_GetDefaults(function)) &&
        append_or_none(parts, python->PyFunction_GetKwDefaults(function)) &&
        append_or_none(parts, dict ? *dict : NULL))
        return parts;
    vt_python_drop(parts);
    return NULL;
}

static object *search_collected(object *arguments, int (*search)(const struct vt_gc_search *))
{
    enum { ARGUMENTS = 7 };
    object *given[ARGUMENTS];
    for (int i = 0; i < ARGUMENTS; i++)
        if (!(given[i] = python->PyTuple_GetItem(arguments, i)))
            return NULL;
    int done = search(&(struct vt_gc_search){.classes = given[0],
                                             .seen = given[1],
                                             .plain = given[2],
                                             .generations = (int)python->PyLong_AsUnsignedLong(given[3]),
                                             .deadline_ns = python->PyLong_AsUnsignedLong(given[4]),
                                             .unreached = given[5],
                                             .holders = given[6]});
    return done < 0 ? NULL : python->PyBool_FromLong(done);
}

/* find_unreached(classes, seen, plain, generations, deadline_ns, unreached, holders): see gc_lists.h. False
 * if the deadline passed. */
static object *find_unreached(object *self, object *arguments)
{
    (void)self;
    return search_collected(arguments, vt_gc_find_unreached);
}

/* find_holders: the same arguments. */
static object *find_holders(object *self, object *arguments)
{
    (void)self;
    return search_collected(arguments, vt_gc_find_holders);
}

/* ---- arrays of other libraries ---- */

static bool append_number(object *list, uint64_t number)
{
    return append_own(list, python->PyLong_FromUnsignedLong(number));
}

static bool append_place(object *list, const struct vt_live_place *place)
{
    return append_number(list, place->address) && append_number(list, place->bytes) &&
           append_number(list, (uint64_t)place->device_index);
}

/* An array on several devices asks only its first buffer. The others are added, if they are known and are as
 * many as the array has devices. */
static void add_other_parts(struct vt_session *session, struct vt_jax_buffers *found, unsigned long parts)
{
    struct vt_live_place place;
    if (found->count != 1 || parts < 2 || parts > VT_JAX_BUFFERS_MAXIMUM)
        return;
    while (found->count < parts && vt_live_find_handle(session, found->handles[found->count - 1], &place) &&
           place.next_part)
        found->handles[found->count++] = place.next_part;
    bool all = found->count == parts && vt_live_find_handle(session, found->handles[parts - 1], &place) &&
               !place.next_part;
    found->count = all ? parts : 1;
}

/* buffers(question, array, parts): a list with address, bytes and device of each buffer on a device that the
 * question to the array reaches. `parts`: how many devices the array lies on. */
static object *buffers(object *self, object *arguments)
{
    struct vt_session *session = vt_session_active();
    struct vt_jax_buffers found = {.count = 0};
    struct vt_live_place place;
    object *question = python->PyTuple_GetItem(arguments, 0), *array = python->PyTuple_GetItem(arguments, 1),
           *parts = python->PyTuple_GetItem(arguments, 2);
    (void)self;
    if (!question || !array || !parts)
        return NULL;
    vt_jax_buffers = &found;
    object *answer = python->PyObject_CallFunctionObjArgs(question, array, NULL),
           *list = answer ? python->PyList_New(0) : NULL;
    vt_jax_buffers = NULL;
    vt_python_drop(answer);
    if (!list || !session)
        return list;
    add_other_parts(session, &found, python->PyLong_AsUnsignedLong(parts));
    for (size_t i = 0; i < found.count; i++)
        if (vt_live_find_handle(session, found.handles[i], &place) && !append_place(list, &place)) {
            python->Py_DecRef(list);
            return NULL;
        }
    return list;
}

/* block(address): a list with address, bytes and device of the block at that address, if it is of a
 * framework without a counter; else empty. */
static object *block(object *self, object *address)
{
    struct vt_session *session = vt_session_active();
    struct vt_live_place place;
    object *list = python->PyList_New(0);
    (void)self;
    if (list && session && vt_live_find_block(session, python->PyLong_AsUnsignedLong(address), &place) &&
        !append_place(list, &place)) {
        python->Py_DecRef(list);
        return NULL;
    }
    return list;
}

struct vt_python_method vt_script_functions[VT_SCRIPT_FUNCTIONS] = {
    {"processor_ns", processor_ns, VT_PYTHON_NO_ARGUMENTS, NULL},
    {"id", id, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"collections", collections, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"referents", referents, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"own_attributes", own_attributes, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"frame_variables", frame_variables, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"generator_variables", generator_variables, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"function_parts", function_parts, VT_PYTHON_ONE_ARGUMENT, NULL},
    {"find_unreached", find_unreached, VT_PYTHON_ARGUMENTS, NULL},
    {"find_holders", find_holders, VT_PYTHON_ARGUMENTS, NULL},
    {"buffers", buffers, VT_PYTHON_ARGUMENTS, NULL},
    {"block", block, VT_PYTHON_ONE_ARGUMENT, NULL},
};
