#include "inspect/attributes.h"

#include <string.h>

#include "stacks/python_layout.h"

/* From 3.11 on an object's attributes are at first values beside it, whose names its class keeps.
 * Where they are differs from version to version. */
enum { MANAGED_DICT = 1 << 4, INLINE_VALUES = 1 << 2 }; /* of tp_flags; the second from 3.13 on */
enum { DICT_WORD = -3, VALUES_WORD_3_11 = -4 };         /* before the object */
enum { VALID_3_13 = 3, VALUES_3_13 = 8 };               /* of the values */
enum {
    KEYS_INDEX_BITS = 9,
    KEYS_KIND = 10,
    KEYS_COUNT = 24,
    KEYS_INDICES = 32,
    KEYS_SPLIT = 2,
    ENTRY_BYTES = 16
};

typedef void object; /* PyObject */

static const char *pointer_at(const void *base, long offset)
{
    const char *pointer;
    memcpy(&pointer, (const char *)base + offset, sizeof pointer);
    return pointer;
}

static object *new_reference(const struct vt_python_api *python, const void *found)
{
    object *kept = found ? (object *)found : python->none;
    python->Py_IncRef(kept);
    return kept;
}

/* The names are those of the class, in the order of the values. */
static object *copy_values(const struct vt_python_api *python, const char *type, const char *values)
{
    const char *keys = pointer_at(type, vt_python_known()->layout->type_cached_keys);
    object *copy = keys && keys[KEYS_KIND] == KEYS_SPLIT ? python->PyDict_New() : new_reference(python, NULL);
    if (!copy || copy == python->none)
        return copy;
    const char *entries = keys + KEYS_INDICES + ((size_t)1 << keys[KEYS_INDEX_BITS]);
    for (intptr_t i = 0, count = (intptr_t)pointer_at(keys, KEYS_COUNT); i < count; i++) {
        const char *name = pointer_at(entries, i * ENTRY_BYTES), *value = pointer_at(values, i * 8);
        if (name && value && python->PyDict_SetItem(copy, (object *)name, (object *)value)) {
            python->Py_DecRef(copy);
            return NULL;
        }
    }
    return copy;
}

object *vt_python_attributes(const struct vt_python_api *python, object *any)
{
    const char *type = pointer_at(any, VT_OBJECT_TYPE);
    const unsigned long flags = (unsigned long)pointer_at(type, VT_TYPE_FLAGS);
    const unsigned minor = vt_python_known()->layout->minor;
    if (minor < 11 || !(flags & MANAGED_DICT)) {
        object **place = python->_PyObject_GetDictPtr(any);
        return new_reference(python, place ? *place : NULL);
    }
    const char *dict = pointer_at(any, DICT_WORD * 8L), *values = NULL;
    if (minor == 11) {
        values = dict ? NULL : pointer_at(any, VALUES_WORD_3_11 * 8L);
    } else if (minor == 12 && (uintptr_t)dict & 1) {
        values = dict + 1;
        dict = NULL;
    } else if (minor == 13 && !dict && flags & INLINE_VALUES) {
        values = (const char *)any + (intptr_t)pointer_at(type, VT_TYPE_BASIC_SIZE);
        values = values[VALID_3_13] ? values + VALUES_3_13 : NULL;
    }
    return values ? copy_values(python, type, values) : new_reference(python, dict);
}
