/* Another tool that interposes dlsym, in the usual way. Says at the end how often it was asked. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

void *dlsym(void *restrict handle, const char *restrict name);

static int asked;

void *dlsym(void *restrict handle, const char *restrict name)
{
    static void *(*real)(void *, const char *);
    if (real == NULL)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
    if (real == NULL)
        real = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    if (strncmp(name, "cu", 2) == 0)
        asked++;
    return real(handle, name);
}

__attribute__((destructor)) static void say(void)
{
    fprintf(stderr, "other dlsym: %d\n", asked);
}
