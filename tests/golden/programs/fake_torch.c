/* PyTorch's seams alone. As libc10.so it has the functions that tell a profiler of memory, and says when they
 * are called; as libtorch_cpu.so the number of the next autograd node. */
#include <stdint.h>
#include <stdio.h>

#ifdef AUTOGRAD
enum { NEXT_NODE = 8 };
uint64_t _ZN2at15sequence_number4peekEv(void);
uint64_t _ZN2at15sequence_number4peekEv(void)
{
    return NEXT_NODE;
}
#else
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device);
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device)
{
    printf("%s: usage %p %ld %lu %lu %x\n", NAME, address, (long)bytes, (unsigned long)allocated,
           (unsigned long)reserved, device);
}

void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t allocated, uint64_t reserved,
                                                         uint16_t device);
void _ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE(int64_t bytes, uint64_t allocated, uint64_t reserved,
                                                         uint16_t device)
{
    printf("%s: oom %ld %lu %lu %x\n", NAME, (long)bytes, (unsigned long)allocated, (unsigned long)reserved,
           device);
}
#endif
