/* The real dlsym(RTLD_NEXT, …) searches the objects after its caller: if the caller was loaded when the
 * program started, everything loaded then (and what was opened globally since); otherwise the libraries that
 * the same dlopen loaded. It identifies the caller by the return address, so we cannot call it for somebody
 * else.
 *
 * Objects are loaded in search order, those of the program's start first. That, and the names of the
 * libraries that each object needs, give the answer in nearly all cases; in the others we say that we do not
 * know. */
#include "loader/dlsym_next.h"

#include "loader/elf_walk.h"
#include "text.h"

#include <dlfcn.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

#define NONE UINT_MAX
#define NAME_BYTES 256

struct object {
    unsigned index; /* in load order; NONE = no object */
    char name[NAME_BYTES];
};

static void note_object(struct object *object, unsigned index, const struct vt_elf *elf)
{
    object->index = index;
    if (!vt_text_copy(object->name, NAME_BYTES,
                      elf->soname[0] != '\0' ? elf->soname : vt_text_base_name(elf->path)))
        object->name[0] = '\0';
}

struct order {
    const char *symbol;
    uintptr_t caller_base;
    unsigned next_index;
    struct vt_elf program;
    unsigned last_of_program; /* the last library that the program itself needs */
    unsigned us;
    struct object caller;
    bool caller_defines,
        defined_between;   /* the caller defines the symbol; an object between the caller and us does */
    struct object definer; /* the first definer after the caller */
    void *defined;
};

static bool put_in_order(const struct vt_elf *elf, void *context)
{
    struct order *order = context;
    unsigned index = order->next_index++;
    struct object here;
    note_object(&here, index, elf);
    if (index == 0)
        order->program = *elf;
    else if (vt_elf_needs(&order->program, here.name))
        order->last_of_program = index;
    if (vt_elf_is_ours(elf)) {
        order->us = index;
        return false;
    }
    if (elf->base == order->caller_base)
        order->caller = here;
    void *defined = vt_elf_symbol(elf, order->symbol, NULL);
    bool after_us = order->us != NONE, after_caller = order->caller.index < index;
    if (defined == NULL)
        return false;
    if (order->caller.index == index)
        order->caller_defines = true;
    else if (after_us != after_caller)
        order->defined_between = true;
    else if (after_us && order->definer.index == NONE) {
        order->definer = here;
        order->defined = defined;
    }
    return false;
}

struct needer {
    const char *library;
    unsigned next_index, before;
    struct object found;
};

static bool visit_needer(const struct vt_elf *elf, void *context)
{
    struct needer *search = context;
    unsigned index = search->next_index++;
    if (index >= search->before)
        return true;
    if (!vt_elf_needs(elf, search->library))
        return false;
    note_object(&search->found, index, elf);
    return true;
}

/* The object that loaded this one: the first one before it that needs it. */
static struct object loader_of(const struct object *object)
{
    struct needer search = {.library = object->name, .before = object->index, .found.index = NONE};
    vt_elf_find(visit_needer, &search);
    return search.found;
}

/* True if the object was loaded when the program started. */
static bool is_of_start(const struct order *order, struct object object)
{
    while (object.index != NONE && object.index > order->last_of_program)
        object = loader_of(&object);
    return object.index != NONE;
}

struct link_map *vt_link_map_of(const void *address)
{
    Dl_info info;
    struct link_map *map = NULL;
    return dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) != 0 ? map : NULL;
}

void *vt_dlsym_in(const struct link_map *map, const char *symbol, vt_dlsym_function *search)
{
    void *handle =
        map == NULL || map->l_name[0] == '\0' ? NULL : dlopen(map->l_name, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL)
        return NULL;
    void *found = search(handle, symbol);
    dlclose(handle);
    return found;
}

static bool find_after_us(const struct order *order, const struct link_map *caller, vt_dlsym_function *search,
                          void **found)
{
    if (is_of_start(order, order->caller)) {
        if (order->definer.index != NONE && is_of_start(order, order->definer))
            *found = order->defined;
        else if (!order->defined_between && !order->caller_defines)
            *found = search(RTLD_NEXT, order->symbol);
        else
            return false;
        return true;
    }
    /* The caller was opened later. Only if it was opened directly is it known what else that dlopen loaded.
     */
    if (order->caller_defines || loader_of(&order->caller).index != NONE)
        return false;
    *found = vt_dlsym_in(caller, order->symbol, search);
    return true;
}

bool vt_dlsym_next(const char *symbol, void *caller, vt_dlsym_function *search, bool is_library, void **found)
{
    struct link_map *map = vt_link_map_of(caller);
    if (map == NULL)
        return false;
    struct vt_elf_changes before = vt_elf_changes(), after;
    struct order order = {.symbol = symbol,
                          .caller_base = map->l_addr,
                          .us = NONE,
                          .caller.index = NONE,
                          .definer.index = NONE};
    vt_elf_find(put_in_order, &order);
    if (order.us == NONE || order.caller.index == NONE)
        return false;
    bool known;
    if (order.caller.index < order.us) {
        known = !order.defined_between;
        *found = known ? search(RTLD_NEXT, symbol) : NULL;
    } else {
        known = is_library && find_after_us(&order, map, search, found) && *found != NULL;
    }
    after = vt_elf_changes();
    return known && after.loads == before.loads && after.unloads == before.unloads;
}
