/* Hosts that find CUDA in odd ways, use it before main and after it, and load plugins that use it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"

static const char *way_of(int count, char **arguments)
{
    return count > 1 ? arguments[1] : "";
}

__attribute__((constructor)) static void before_main(int count, char **arguments)
{
    if (strcmp(way_of(count, arguments), "constructor"))
        return;
    host_begin();
    host_pairs(10);
    host_say("before main\n");
}

static bool late;
__attribute__((destructor)) static void after_main(void)
{
    if (!late)
        return;
    host_pairs(10);
    host_say("after main\n");
}

static void at_exit(void)
{
    host_pairs(10);
    host_say("at exit\n");
}

static int constructor(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_pairs(10);
    return 0;
}

static int destructor(int count, char **arguments)
{
    (void)arguments;
    host_begin();
    if (!count)
        host_pairs(10);
    late = true;
    atexit(at_exit);
    return 0;
}

/* The first call of all comes at exit. */
static void first_at_exit(void)
{
    host_begin();
    host_pairs(10);
    host_say("at exit\n");
}

static int only_at_exit(int count, char **arguments)
{
    (void)count, (void)arguments;
    atexit(first_at_exit);
    return 0;
}

static const char *found(void *address)
{
    Dl_info information;
    if (!address)
        return "nothing";
    return dladdr(address, &information) ? "a function" : "an address of nobody";
}

/* Where names are found, in each way of asking. This program is not linked with libcuda. */
static int lookups(int count, char **arguments)
{
    (void)arguments;
    static const char *const names[] = {"cuMemAlloc_v2", "cuMemAlloc", "cuInit", "cudaMalloc",
                                        "cuNoSuchFunction"};
    if (count)
        dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        host_say("%s: default %s", names[i], found(dlsym(RTLD_DEFAULT, names[i])));
        host_say(", next %s", found(dlsym(RTLD_NEXT, names[i])));
        host_say(", error %s", dlerror() ? "told" : "none");
        host_say(", version %s", found(dlvsym(RTLD_DEFAULT, names[i], "GLIBC_2.2.5")));
        host_say(", error %s", dlerror() ? "told" : "none");
        if (driver)
            host_say(", handle %s", found(dlsym(driver, names[i])));
        host_say("\n");
    }
    host_say("malloc: default %s, next %s, version %s\n", found(dlsym(RTLD_DEFAULT, "malloc")),
             found(dlsym(RTLD_NEXT, "malloc")), found(dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_2.2.5")));
    return 0;
}

/* RTLD_NEXT from main is behind the program: the function of libcuda, and it works. */
static int next(int count, char **arguments)
{
    (void)count, (void)arguments;
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    host_begin();
    int (*alloc)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    int (*plain)(uint64_t *, size_t) = (int (*)(uint64_t *, size_t))dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    host_say("next %s, default %s\n", alloc ? "is there" : "is not there",
             plain ? "is there" : "is not there");
    if (alloc)
        host_free(host_alloc_by(alloc, 4096));
    if (plain)
        host_free(host_alloc_by(plain, 4096));
    return 0;
}

/* plugin HOW COUNT: a plugin that calls CUDA comes and goes. */
static int plugin(int count, char **arguments)
{
    if (count != 3)
        return 2;
    int flags = RTLD_NOW | (!strcmp(arguments[0], "deep") ? RTLD_DEEPBIND : 0);
    host_begin();
    for (int i = 0; i < atoi(arguments[2]); i++) {
        void *handle = !strcmp(arguments[0], "namespace") ? dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW)
                                                          : dlopen(arguments[1], flags);
        void (*call)(void (*)(void)) = handle ? (void (*)(void (*)(void)))dlsym(handle, "plugin_pair") : NULL;
        if (!call) {
            host_say("%d: %s\n", i, dlerror());
            return 3;
        }
        call(host_pair);
        if (dlclose(handle))
            host_say("%d: not closed\n", i);
    }
    host_say("fine\n");
    return 0;
}

/* libcuda itself is loaded, used and closed, over and over. */
static int reload(int count, char **arguments)
{
    (void)count, (void)arguments;
    for (int i = 0; i < 100; i++) {
        void *driver = dlopen("libcuda.so.1", RTLD_NOW);
        int (*init)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
        if (!init || init(0))
            return 3;
        dlclose(driver);
    }
    host_begin();
    host_pairs(10);
    host_say("fine\n");
    return 0;
}

/* Every function of this program that allocates calls CUDA: so does what the loader and the recorder call. */
static bool in_hook, hooks;
void *malloc(size_t bytes)
{
    extern void *__libc_malloc(size_t);
    if (hooks && !in_hook) {
        in_hook = true;
        host_pair();
        in_hook = false;
    }
    return __libc_malloc(bytes);
}

static void *allocates(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100; i++)
        free(malloc((size_t)i));
    return NULL;
}

static int malloc_hook(int count, char **arguments)
{
    (void)count, (void)arguments;
    host_begin();
    hooks = true;
    allocates(NULL);
    hooks = false;
    host_say("fine\n");
    return 0;
}

/* What the program is called. */
static int vector_of_program(int count, char **arguments)
{
    (void)count;
    host_begin();
    host_pairs(2);
    host_say("%s, %s\n", program_invocation_short_name, arguments[-1]);
    return 0;
}

static const struct host_way ways[] = {
    {"constructor", constructor},
    {"destructor", destructor},
    {"only_at_exit", only_at_exit},
    {"lookups", lookups},
    {"next", next},
    {"plugin", plugin},
    {"reload", reload},
    {"malloc_hook", malloc_hook},
    {"names", vector_of_program},
};
HOST_MAIN(ways)
