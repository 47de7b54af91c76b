/* Not linked to libcuda: finds its functions in the way named by the argument. Also built as a plugin. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "way.h"

static void *handle; /* for dlsym */
static int (*get_proc_address_1)(const char *, void **, int, unsigned long);
static int (*get_proc_address_2)(const char *, void **, int, unsigned long, int *);

static void *by_dlsym(const char *name, int version)
{
    (void)version;
    return dlsym(handle, name);
}

/* cuGetProcAddress takes names without suffix. */
static const char *base_name(const char *name, char *buffer)
{
    const char *suffix = strstr(name, "_v2");
    size_t length = suffix != NULL ? (size_t)(suffix - name) : strlen(name);
    memcpy(buffer, name, length);
    buffer[length] = '\0';
    return buffer;
}

static void *by_proc_address_1(const char *name, int version)
{
    char buffer[64];
    void *function = NULL;
    return get_proc_address_1(base_name(name, buffer), &function, version, 0) == 0 ? function : NULL;
}

static void *by_proc_address_2(const char *name, int version)
{
    char buffer[64];
    void *function = NULL;
    return get_proc_address_2(base_name(name, buffer), &function, version, 0, NULL) == 0 ? function : NULL;
}

static void fill(struct way *way, void *(*find)(const char *, int))
{
#define FILL(member, name, version)                                                                          \
    way->member = (__typeof__(way->member))find(name, version);                                              \
    if (way->member == NULL) {                                                                               \
        printf("missing %s\n", name);                                                                        \
        exit(1);                                                                                             \
    }
    WAY_FUNCTIONS(FILL)
}

static void *open_driver(int flags)
{
    const char *path = getenv("WAY_PATH");
    void *opened = dlopen(path != NULL ? path : "libcuda.so.1", flags);
    if (opened == NULL) {
        printf("missing %s\n", dlerror());
        exit(1);
    }
    return opened;
}

static void *one_thread(void *argument)
{
    struct way way;
    (void)argument;
    fill(&way, by_dlsym);
    begin(&way);
    allocate_and_free(&way, 20);
    return NULL;
}

static void many_threads(void)
{
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, one_thread, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
}

static void run(const char *mode)
{
    struct way way;
    void *(*find)(const char *, int) = by_dlsym;
    int global = strcmp(mode, "default") == 0 || strcmp(mode, "next") == 0 || strcmp(mode, "null") == 0;
    handle = open_driver(RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (strcmp(mode, "threads") == 0) {
        many_threads();
        return;
    }
    if (strcmp(mode, "default") == 0)
        handle = RTLD_DEFAULT;
    if (strcmp(mode, "next") == 0)
        handle = RTLD_NEXT;
    if (strcmp(mode, "null") == 0)
        handle = dlopen(NULL, RTLD_NOW);
    if (strcmp(mode, "procaddress1") == 0) {
        find = by_proc_address_1;
        get_proc_address_1 = (__typeof__(get_proc_address_1))dlsym(handle, "cuGetProcAddress");
    }
    if (strncmp(mode, "procaddress2", 12) == 0) {
        find = by_proc_address_2;
        get_proc_address_2 = (__typeof__(get_proc_address_2))dlsym(handle, "cuGetProcAddress_v2");
    }
    if (strcmp(mode, "procaddress2-again") == 0) { /* as libcudart keeps it for its callers */
        void *again = NULL;
        check(get_proc_address_2("cuGetProcAddress", &again, 12000, 0, NULL), "cuGetProcAddress");
        get_proc_address_2 = (__typeof__(get_proc_address_2))again;
    }
    fill(&way, find);
    begin(&way);
    allocate_and_free(&way, 3);
    fflush(stdout);
}

#ifdef PLUGIN
void plugin_run(void);
void plugin_run(void)
{
    run("dlsym");
}
#else
int main(int argc, char **argv)
{
    run(argc > 1 ? argv[1] : "dlsym");
    return 0;
}
#endif
