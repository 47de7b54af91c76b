/* Loads the plugins named by its arguments, each RTLD_LOCAL, and runs them. */
#include <dlfcn.h>
#include <stdio.h>

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
    }
    return 0;
}
