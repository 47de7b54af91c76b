#include "loader/lookup.h"

#include "loader/elf_walk.h"
#include "text.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#define DRIVER_SONAME "libcuda.so.1"

enum library_state { LIBRARY_UNKNOWN = 0, LIBRARY_FOUND, LIBRARY_PINNED };

struct library {
    const char *version;      /* symbol version of a libcudart; NULL: libcuda */
    _Atomic int state;        /* enum library_state */
    _Atomic uint64_t unloads; /* when `functions` were found; valid until another library is unloaded */
    _Atomic(void *) functions[VT_FUNCTION_COUNT];
};

static struct library driver;
static struct library runtimes[VT_RUNTIME_VERSIONS] = {
#define X(release, name, unused) [VT_RUNTIME_##release] = {.version = name},
    VT_RUNTIME_RELEASES(X, )
#undef X
};

/* The table of wrappers that hooks.def makes. Only their addresses are used here, not their types; they are
 * handed out, never called. */
#define VT_FUNCTION(kind, symbol)
#define VT_WRAPPED(symbol) extern void vt_hook_##symbol(void);
#include "hooks/hooks.def"
static void (*const wrappers[VT_FUNCTION_COUNT])(void) = {
#define VT_FUNCTION(kind, symbol)
#define VT_WRAPPED(symbol) [VT_FUNCTION_##symbol] = vt_hook_##symbol,
#include "hooks/hooks.def"
};

void *vt_wrapper(enum vt_function function)
{
    return (void *)wrappers[function];
}

static bool is_library(const struct vt_elf *object, const struct library *library)
{
    if (library->version != NULL) /* auditwheel may mangle the soname, but not the version */
        return !vt_elf_is_ours(object) && vt_elf_defines_version(object, library->version);
    return strcmp(object->soname, DRIVER_SONAME) == 0 ||
           strcmp(vt_text_base_name(object->path), DRIVER_SONAME) == 0;
}

static bool is_function_of(const struct library *library, enum vt_function_kind kind)
{
    return library->version != NULL ? kind == VT_KIND_RUNTIME || kind == VT_KIND_RUNTIME_NEEDED
                                    : kind == VT_KIND_WRAPPED || kind == VT_KIND_NEEDED;
}

static bool take_functions(const struct vt_elf *object, void *context)
{
    struct library *library = context;
    if (!is_library(object, library))
        return false;
    for (unsigned i = 1; i < VT_FUNCTION_COUNT; i++)
        if (is_function_of(library, vt_function_kind(i)))
            atomic_store_explicit(&library->functions[i],
                                  vt_elf_symbol(object, vt_function_name(i), library->version),
                                  memory_order_relaxed);
    atomic_store_explicit(&library->unloads, object->unloads, memory_order_release);
    return true;
}

/* Several threads may do this at once: all store the same. */
static bool find_library(struct library *library)
{
    if (!vt_elf_find(take_functions, library))
        return false;
    int unknown = LIBRARY_UNKNOWN;
    atomic_compare_exchange_strong(&library->state, &unknown, LIBRARY_FOUND);
    return true;
}

struct path_of_library {
    const struct library *library;
    char path[4096];
};

static bool copy_path(const struct vt_elf *object, void *context)
{
    struct path_of_library *wanted = context;
    return is_library(object, wanted->library) &&
           vt_text_copy(wanted->path, sizeof(wanted->path), object->path);
}

static void pin_library(struct library *library)
{
    if (atomic_load_explicit(&library->state, memory_order_acquire) != LIBRARY_FOUND)
        return;
    struct path_of_library wanted = {.library = library};
    if (!vt_elf_find(copy_path, &wanted))
        return;
    void *handle =
        dlopen(wanted.path[0] != '\0' ? wanted.path : NULL, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE);
    if (handle == NULL) {
        dlerror(); /* so that the host does not see our error */
        return;
    }
    /* Search again: it may have been unloaded and loaded elsewhere between the walk and the pin. */
    if (find_library(library))
        atomic_store_explicit(&library->state, LIBRARY_PINNED, memory_order_release);
    dlclose(handle);
}

void vt_lookup_pin(void)
{
    pin_library(&driver);
    for (int i = 0; i < VT_RUNTIME_VERSIONS; i++)
        pin_library(&runtimes[i]);
}

static bool library_ready(struct library *library)
{
    if (atomic_load_explicit(&library->state, memory_order_acquire) == LIBRARY_PINNED)
        return true;
    if (atomic_load_explicit(&library->state, memory_order_acquire) == LIBRARY_FOUND &&
        atomic_load_explicit(&library->unloads, memory_order_acquire) == vt_elf_changes().unloads)
        return true;
    return find_library(library);
}

static void *real_function(struct library *library, enum vt_function function)
{
    if (!library_ready(library))
        return NULL;
    return atomic_load_explicit(&library->functions[function], memory_order_relaxed);
}

void *vt_real_function(enum vt_function function)
{
    return real_function(&driver, function);
}

void *vt_function_to_call(enum vt_function function)
{
    void *real = vt_real_function(function);
    return real != NULL ? real : vt_elf_next_definition(vt_function_name(function));
}

void *vt_real_runtime_function(enum vt_runtime_version version, enum vt_function function)
{
    return real_function(&runtimes[version], function);
}

static enum vt_function function_of_address(const void *address, const char *name)
{
    size_t name_length = strlen(name);
    for (unsigned i = 1; i < VT_FUNCTION_COUNT; i++) {
        if (wrappers[i] == NULL ||
            atomic_load_explicit(&driver.functions[i], memory_order_relaxed) != address)
            continue;
        /* NVIDIA's libcuda has one address per name. Other builds may merge identical functions, so the name
         * must match too: the answer to cuX is always cuX with some suffix. */
        if (strncmp(vt_function_name(i), name, name_length) == 0)
            return (enum vt_function)i;
    }
    return VT_FUNCTION_NONE;
}

void *vt_wrapper_of_address(const void *address, const char *name)
{
    if (address == NULL || name == NULL || !library_ready(&driver))
        return NULL;
    return vt_wrapper(function_of_address(address, name));
}
