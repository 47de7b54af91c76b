/* What dlsym(RTLD_NEXT, …) would find if this library were not loaded. Threads: any. */
#ifndef VT_DLSYM_NEXT_H
#define VT_DLSYM_NEXT_H

#include <stdbool.h>

typedef void *vt_dlsym_function(void *handle, const char *name);

/* Finds what RTLD_NEXT would find for `caller` without us: *found, or NULL with dlerror set. `search` is the
 * dlsym that the host would have called; `is_library` says that it is the C library's. False: not known;
 * leave the answer to `search`, which is right, but may be a function of libcuda itself. */
bool vt_dlsym_next(const char *symbol, void *caller, vt_dlsym_function *search, bool is_library,
                   void **found);

#endif
