/* Loads the plugins named by its arguments, each RTLD_LOCAL, and runs them. With WAY_UNLOAD, each is unloaded
 * after its run, and the place of libcuda is taken, so that the next one's is elsewhere. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *driver_place(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void *place = driver != NULL ? (void *)((struct link_map *)driver)->l_addr : NULL;
    if (driver != NULL)
        dlclose(driver);
    return place;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        void *plugin = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL) {
            printf("missing %s\n", dlerror());
            return 1;
        }
        void (*run)(void) = (void (*)(void))dlsym(plugin, "plugin_run");
        if (run != NULL)
            run();
        if (getenv("WAY_UNLOAD") == NULL)
            continue;
        void *place = driver_place();
        dlclose(plugin);
        printf("unloaded %d\n", driver_place() == NULL);
        mmap(place, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
             0); /* a page is free there for certain */
    }
    return 0;
}
