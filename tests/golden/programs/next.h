/* What dlsym(RTLD_NEXT, …) answers whoever includes this: names, and the library that each was found in. */
#ifndef NEXT_H
#define NEXT_H

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static inline void next_ask(const char *who)
{
    static const char *const names[] = {"cuMemAlloc_v2",   "cuMemFree_v2", "cuGetProcAddress_v2", "cuInit",
                                        "cuMemGetInfo_v2", "malloc",       "no_such_name"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        Dl_info info = {.dli_fname = "nowhere"};
        errno = 77;
        void *found = dlsym(RTLD_NEXT, names[i]);
        int after = errno;
        const char *error = dlerror();
        /* The text names an object file; what it says of the symbol is compared. */
        const char *text = error != NULL ? strstr(error, "undefined symbol") : "no error";
        if (found != NULL && dladdr(found, &info) == 0)
            info.dli_fname = "unknown";
        const char *slash = strrchr(info.dli_fname, '/');
        printf("%s: %s: %s, %s, errno %d\n", who, names[i], slash != NULL ? slash + 1 : info.dli_fname,
               text != NULL ? text : "other error", after);
    }
}

#endif
