/* Prints what lookups answer, without calling anything: the same with and without the shim is the test. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void ask(const char *where, void *handle, const char *name)
{
    dlerror();
    errno = 77;
    void *found = dlsym(handle, name);
    const char *error = dlerror();
    /* The text names an object file; what it says of the symbol is compared. */
    const char *text = error != NULL ? strstr(error, "undefined symbol") : NULL;
    printf("%s %s: %s, %s, errno %d\n", where, name, found != NULL ? "found" : "NULL",
           error == NULL ? "no error" : (text != NULL ? text : "other error"), errno);
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
    return 0;
}
