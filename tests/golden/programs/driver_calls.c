/* Calls each family of hooked functions: the argument names one (driver_calls.h). */
#include "driver_calls.h"

#include <string.h>

CUcontext primary_context;

void check_value(const char *name, uint64_t value)
{
    printf("check %s %lu\n", name, (unsigned long)value);
}

void say_alloc(uint64_t address, size_t bytes, int flags)
{
    printf("alloc 0x%lx %zu %d\n", (unsigned long)address, bytes, flags);
}

void say_free(uint64_t address)
{
    printf("free 0x%lx\n", (unsigned long)address);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } families[] = {
#define X(function, name) {name, function},
        FAMILIES(X)
#undef X
    };
    for (size_t i = 0; argc > 1 && i < sizeof(families) / sizeof(families[0]); i++) {
        if (strcmp(argv[1], families[i].name) != 0)
            continue;
        if (families[i].run != no_context) {
            GOOD(cuInit(0));
            GOOD(cuDevicePrimaryCtxRetain(&primary_context, 0));
            GOOD(cuCtxSetCurrent(primary_context));
        }
        families[i].run();
        return 0;
    }
    return 2;
}
