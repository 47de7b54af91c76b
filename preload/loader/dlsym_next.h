/* What dlsym(RTLD_NEXT, …) would find if this library were not loaded. Threads: any. */
#ifndef VT_DLSYM_NEXT_H
#define VT_DLSYM_NEXT_H

#include <link.h>
#include <stdbool.h>

typedef void *vt_dlsym_function(void *handle, const char *name);

/* Finds what RTLD_NEXT would find for `caller` without us: *found, or NULL with dlerror set. `search` is the
 * dlsym that the host would have called; `is_library` says that it is the C library's. False: not known;
 * leave the answer to `search`, which is right, but may be a function of libcuda itself. */
bool vt_dlsym_next(const char *symbol, void *caller, vt_dlsym_function *search, bool is_library,
                   void **found);

/* The loaded object around `address`; NULL if there is none. Takes the loader's lock. */
struct link_map *vt_link_map_of(const void *address);

/* What `search` finds in this library and those that it needs. NULL if it finds nothing, or if `map` is NULL
 * or the program itself. */
void *vt_dlsym_in(const struct link_map *map, const char *symbol, vt_dlsym_function *search);

#endif
