/* Between dlsym_*.S, dlsym.c and dlsym_next.c. */
#ifndef VT_DLSYM_H
#define VT_DLSYM_H

#include <stdbool.h>

typedef void *vt_dlsym_function(void *handle, const char *name);

/* Returned in two registers. */
struct vt_dlsym_answer {
    void *real_dlsym; /* not NULL: jump there */
    void *answer;     /* else return this */
};

struct vt_dlsym_answer vt_dlsym_filter(void *handle, const char *name, void *caller);

/* What RTLD_NEXT would find for `caller` without us: *found, or NULL with dlerror set. `search` is the dlsym
 * that the host would have called; `is_library` says that it is the C library's. False: leave the answer to
 * `search`; it is right, but may be a function of libcuda itself. */
bool vt_dlsym_next(const char *symbol, void *caller, vt_dlsym_function *search, bool is_library,
                   void **found);

/* What the host gets instead of `found`, a plugin's function of this name. hooks/pjrt.c defines it. */
#define VT_PJRT_ENTRY "GetPjrtApi"
void *vt_pjrt_entry(void *found);

#endif
