/* What our dlsym (dlsym_*.S) answers: wrappers for the functions that we hook, the real answer for all
 * others. */
#include "functions.h"
#include "hooks/pjrt.h"
#include "loader/dlsym_next.h"
#include "loader/lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Returned in two registers. */
struct vt_dlsym_answer {
    void *real_dlsym; /* not NULL: jump there */
    void *answer;     /* else return this */
};
struct vt_dlsym_answer vt_dlsym_filter(void *handle, const char *name, void *caller); /* for dlsym_*.S */

static _Atomic(vt_dlsym_function *) library_dlsym; /* the C library's own */
static _Atomic(vt_dlsym_function *) next_dlsym;    /* what the host would call without us */

/* The C library's minor version, 2.<minor>, read without calling anything that an interposer may have
 * replaced. */
static int library_minor_version(void)
{
    const char *text = gnu_get_libc_version();
    int minor = 0;
    if (text[0] != '2' || text[1] != '.')
        return 0;
    for (text += 2; *text >= '0' && *text <= '9'; text++)
        minor = minor * 10 + (*text - '0');
    return minor;
}

/* The symbol version of glibc's dlsym depends on architecture and release. For a wrong version dlvsym would
 * allocate an error text, and our caller may be an allocator or a sanitizer in its first steps, looking up
 * the functions that it replaces. So the right version is tried first, and nothing else is called. */
static vt_dlsym_function *find_library_dlsym(void)
{
#if defined(__x86_64__)
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
#else
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17"};
#endif
    bool recent = library_minor_version() >= 34;
    void *found = dlvsym(RTLD_NEXT, "dlsym", versions[recent ? 0 : 1]);
    if (found == NULL)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[recent ? 1 : 0]);
    return (vt_dlsym_function *)found;
}

static vt_dlsym_function *host_dlsym(void)
{
    vt_dlsym_function *next = atomic_load_explicit(&next_dlsym, memory_order_acquire);
    if (next != NULL)
        return next;
    vt_dlsym_function *library = find_library_dlsym();
    if (library == NULL)
        return NULL;
    /* A tool preloaded after us may have its own dlsym, which would answer without us. */
    next = (vt_dlsym_function *)library(RTLD_NEXT, "dlsym");
    if (next == NULL)
        next = library;
    atomic_store_explicit(&library_dlsym, library, memory_order_relaxed);
    atomic_store_explicit(&next_dlsym, next, memory_order_release);
    return next;
}

static bool is_our_handle(void *handle)
{
    struct link_map *map = vt_link_map_of((void *)host_dlsym);
    return map != NULL && handle == (void *)map;
}

/* What the host would find without us: in the global scope, then in `caller`'s own libraries. If NULL,
 * dlerror is set, as by the real dlsym. */
static void *search_without_us(const char *name, void *caller)
{
    vt_dlsym_function *library = atomic_load_explicit(&library_dlsym, memory_order_relaxed);
    void *found = library(RTLD_NEXT, name);
    if (found == NULL)
        found = vt_dlsym_in(vt_link_map_of(caller), name, library);
    return found != NULL ? found : library(RTLD_NEXT, name);
}

/* *answer becomes the real answer, or if that is our own wrapper, what the host would get without us. False:
 * the real dlsym must answer. */
static bool answer_without_us(void *handle, const char *name, void *caller, const void *wrapper,
                              void **answer)
{
    vt_dlsym_function *next = host_dlsym();
    bool is_library = next == atomic_load_explicit(&library_dlsym, memory_order_relaxed);
    if (handle == RTLD_NEXT)
        return vt_dlsym_next(name, caller, next, is_library, answer);
    *answer = next(handle, name);
    if (*answer == wrapper && !is_our_handle(handle))
        *answer = search_without_us(name, caller);
    return true;
}

struct vt_dlsym_answer vt_dlsym_filter(void *handle, const char *name, void *caller)
{
    int saved_errno = errno;
    struct vt_dlsym_answer ask_real = {.real_dlsym = (void *)host_dlsym()}, given = {.real_dlsym = NULL};
    errno = saved_errno;
    if (ask_real.real_dlsym == NULL || name == NULL)
        return ask_real;
    if (handle != RTLD_NEXT && handle != RTLD_DEFAULT && strcmp(name, VT_PJRT_ENTRY) == 0) {
        given.answer = vt_pjrt_entry(host_dlsym()(handle, name));
        return given;
    }
    enum vt_function function = vt_function_find(name);
    void *wrapper = vt_wrapper(function);
    if (wrapper == NULL || !answer_without_us(handle, name, caller, wrapper, &given.answer))
        return ask_real;
    saved_errno = errno;
    if (given.answer != NULL && given.answer == vt_real_function(function)) {
        vt_lookup_pin();
        given.answer = wrapper;
    }
    errno = saved_errno;
    return given;
}
