/* A loader that often enough (FAIL_PINS times) cannot keep a library. Says at the end how often it was tried,
 * and how often it went well. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_int tried, kept;

void *dlopen(const char *path, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
    const char *failures = getenv("FAIL_PINS");
    if ((flags & (RTLD_NOLOAD | RTLD_NODELETE)) != (RTLD_NOLOAD | RTLD_NODELETE))
        return real(path, flags);
    if (atomic_fetch_add(&tried, 1) < (failures != NULL ? atoi(failures) : 0))
        return real("/no/such/library", flags); /* NULL, with an error to be read */
    void *handle = real(path, flags);
    kept += handle != NULL;
    return handle;
}

__attribute__((destructor)) static void say(void)
{
    if (tried > 0)
        fprintf(stderr, "pins %d %d\n", tried, kept);
}
