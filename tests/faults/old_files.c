/* Preloaded: the files that OLD_FILES names, apart by colons, changed two days earlier than they did. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef int lstat64_function(const char *path, struct stat64 *status);

static int is_named(const char *path)
{
    const size_t bytes = strlen(path);
    for (const char *at = getenv("OLD_FILES"); at && (at = strstr(at, path)); at += bytes)
        if (at[bytes] == 0 || at[bytes] == ':')
            return 1;
    return 0;
}

int lstat64(const char *path, struct stat64 *status)
{
    void *found = dlsym(RTLD_NEXT, "lstat64");
    lstat64_function *next;
    memcpy(&next, &found, sizeof next);
    const int result = next(path, status);
    if (!result && is_named(path))
        status->st_ctim.tv_sec -= 2 * 24 * 3600;
    return result;
}
