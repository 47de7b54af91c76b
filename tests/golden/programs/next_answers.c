/* Asks for what comes next, from the program, from a library that was there at its start (preloaded, or
 * linked), and from the plugins named by the arguments: before and after libcuda is loaded. Calls nothing,
 * but for a function that a tool in front of libcuda defines. */
#include "next.h"

#ifdef LINKED
int cuInit(unsigned flags);
int (*volatile program_keeps)(unsigned) = cuInit;
#endif

#ifdef WITH_ASKER
void asker_ask(const char *who);
void (*volatile program_keeps_asker)(const char *) = asker_ask;
#endif

enum { MAXIMUM_PLUGINS = 8 };
typedef void ask_function(const char *who);
static void *plugins[MAXIMUM_PLUGINS];

static void ask_all(const char *when, int plugin_count)
{
    char who[64];
    ask_function *ask = (ask_function *)dlsym(RTLD_DEFAULT, "asker_ask");
    snprintf(who, sizeof(who), "program, %s", when);
    next_ask(who);
    snprintf(who, sizeof(who), "library, %s", when);
    if (ask != NULL)
        ask(who);
    for (int i = 0; i < plugin_count; i++) {
        snprintf(who, sizeof(who), "plugin %d, %s", i, when);
        ask = (ask_function *)dlsym(plugins[i], "asker_ask");
        if (ask != NULL)
            ask(who);
    }
}

int main(int argc, char **argv)
{
    unsigned long long address;
    int (*allocate)(unsigned long long *, size_t) =
        (int (*)(unsigned long long *, size_t))dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    ask_all("at the start", 0);
    printf("call %d\n", allocate != NULL ? allocate(&address, 1) : 0);
    for (int i = 1; i < argc && i <= MAXIMUM_PLUGINS; i++) {
        plugins[i - 1] = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (plugins[i - 1] == NULL) {
            printf("missing %s\n", dlerror());
            return 1;
        }
    }
    ask_all("with plugins", argc - 1);
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    ask_all("libcuda local", argc - 1);
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    ask_all("libcuda global", argc - 1);
    return 0;
}
