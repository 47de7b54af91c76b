/* For LD_AUDIT: libraries of CUDA are taken from the folders in VRAMTRACE_SIMULATION (apart by colons),
 * however a program asks for them: by name, RPATH, absolute path or dlopen. Only names that are there are; so
 * nothing is loaded that was not asked for.
 *
 * nvrtc and nvJitLink work without a GPU: the program's own are taken, ours only where it has none.
 *
 * Runs inside the dynamic linker, in a namespace of its own: no thread-locals, no allocation. Threads: the
 * linker's lock is held. */
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((visibility("default"))) unsigned la_version(unsigned version);
__attribute__((visibility("default"))) char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag);

static const char *folders;
static char path[4096];

unsigned la_version(unsigned version)
{
    folders = getenv("VRAMTRACE_SIMULATION");
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Its path in our folders, or NULL. */
static char *ours(const char *base)
{
    for (const char *at = folders; at != NULL && *at != '\0';) {
        const int length = (int)strcspn(at, ":");
        if (snprintf(path, sizeof(path), "%.*s/%s", length, at, base) < (int)sizeof(path) &&
            access(path, R_OK) == 0)
            return path;
        at += length + (at[length] == ':');
    }
    return NULL;
}

char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
    (void)cookie;
    if (!begins(base, "libcu") && !begins(base, "libnv") && !begins(base, "libnccl"))
        return (char *)name;
    char *found = ours(base);
    if (found == NULL)
        return (char *)name;
    if (!begins(base, "libnvrtc") && !begins(base, "libnvJitLink"))
        return found;
    if (flag == LA_SER_DEFAULT && access(name, R_OK) != 0)
        return found;
    return flag == LA_SER_LIBPATH && strcmp(name, found) == 0 ? NULL : (char *)name;
}
