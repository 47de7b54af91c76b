/* Prints what lookups answer, without calling anything: the same with and without the recorder is the test. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* libcudart's functions are the real ones; what is ours has another library by right. */
static const char *found_where(const char *name, void *found)
{
    Dl_info info;
    if (found == NULL)
        return "NULL";
    if (strncmp(name, "cuda", 4) != 0 || dladdr(found, &info) == 0)
        return "found";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

static void ask(const char *where, void *handle, const char *name)
{
    dlerror();
    errno = 77;
    void *found = dlsym(handle, name);
    const char *error = dlerror();
    /* The text names an object file; what it says of the symbol is compared. */
    const char *text = error != NULL ? strstr(error, "undefined symbol") : NULL;
    int after = errno;
    printf("%s %s: %s, %s, errno %d\n", where, name, found_where(name, found),
           error == NULL ? "no error" : (text != NULL ? text : "other error"), after);
}

static void ask_all(const char *when, void *handle)
{
    static const char *const names[] = {"cuMemAlloc_v2", "cuMemFree_v2",    "cuGetProcAddress_v2",
                                        "cuMemAlloc_v3", "cudaMalloc",      "cudaFreeAsync",
                                        "cuInit",        "malloc",          "dlsym",
                                        "no_such_name",  "cuMemGetInfo_v2", ""};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        ask(when, handle, names[i]);
}

int main(void)
{
    ask_all("default, nothing loaded", RTLD_DEFAULT);
    ask_all("program, nothing loaded", dlopen(NULL, RTLD_NOW));
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == NULL)
        return 1;
    ask_all("default, local", RTLD_DEFAULT);
    ask_all("program, local", dlopen(NULL, RTLD_NOW));
    ask_all("driver", driver);
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    ask_all("default, global", RTLD_DEFAULT);
    ask_all("program, global", dlopen(NULL, RTLD_NOW));
    ask_all("next, global", RTLD_NEXT);
    ask_all("runtime", dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL));
    ask_all("default, runtime local", RTLD_DEFAULT);
    dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
    ask_all("default, runtime global", RTLD_DEFAULT);
    ask_all("next, runtime global", RTLD_NEXT);
    return 0;
}
