/* Calls each family of hooked functions: the argument names one (driver_calls.h). */
#include "driver_calls.h"

#include <string.h>

CUcontext primary_context;

int other_device;
static uint64_t bytes_at_start; /* in use on the card before the family's first call */

uint64_t device_bytes(int device)
{
    size_t free_bytes, total;
    if (standin_device_bytes != NULL)
        return standin_device_bytes(device);
    GOOD(cuMemGetInfo_v2(&free_bytes, &total));
    return total - free_bytes;
}

uint64_t allocation_bytes(void)
{
    return standin_allocation_bytes != NULL ? standin_allocation_bytes(0) : device_bytes(0) - bytes_at_start;
}

void count_from_here(void)
{
    bytes_at_start = standin_device_bytes != NULL ? 0 : device_bytes(0);
}

uint64_t graph_bytes(int device)
{
    cuuint64_t bytes;
    if (standin_use_bytes != NULL)
        return standin_use_bytes(device, "pool");
    GOOD(cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes));
    return bytes;
}

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
    int devices;
    for (size_t i = 0; argc > 1 && i < sizeof(families) / sizeof(families[0]); i++) {
        if (strcmp(argv[1], families[i].name) != 0)
            continue;
        if (families[i].run != no_context) {
            GOOD(cuInit(0));
            GOOD(cuDevicePrimaryCtxRetain(&primary_context, 0));
            GOOD(cuCtxSetCurrent(primary_context));
            GOOD(cuDeviceGetCount(&devices));
            other_device = devices > 1;
            count_from_here();
        }
        families[i].run();
        return 0;
    }
    return 2;
}
