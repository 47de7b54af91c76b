/* A library of a framework that frees a block when it is told to, or when the process ends, after the
 * interpreter's end. */
#include <stdint.h>
#include <stdlib.h>

__attribute__((weak)) void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes,
                                                                                 uint64_t allocated,
                                                                                 uint64_t reserved,
                                                                                 uint16_t device);

enum { CUDA = 1, BYTES = 512 };
static char block[BYTES];

static void report(int64_t bytes)
{
    if (_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE)
        _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(block, bytes, bytes > 0 ? BYTES : 0, BYTES,
                                                              CUDA);
}

void free_block(void);
void free_block(void)
{
    report(-BYTES);
}

void hold_block(void);
void hold_block(void)
{
    report(BYTES);
}

int free_at_end(void);
int free_at_end(void)
{
    return atexit(free_block);
}
