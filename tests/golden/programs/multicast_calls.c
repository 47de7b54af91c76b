/* Multicast objects on two devices, as libraries for collective communication use them. After each call that
 * may change what is alive, what the driver's own books say, with a mark of the same name:
 *   bytes NAME DEVICE_0 DEVICE_1 HANDLES */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "vramtrace/api.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

uint64_t standin_allocation_bytes(int device);
uint64_t standin_device_bytes(int device);
uint64_t standin_handles(void);

#if CUDA_VERSION < 13010 /* cuda.h does not declare them yet */
CUresult CUDAAPI cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                       CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                       unsigned long long flags);
CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                        CUdeviceptr memptr, size_t size, unsigned long long flags);
#endif

#define MIB ((size_t)1 << 20)
#define GOOD(call) expect(call, #call, CUDA_SUCCESS)
#define BAD(call) expect(call, #call, CUDA_ERROR_INVALID_VALUE)

static void expect(CUresult result, const char *what, CUresult wanted)
{
    if (result == wanted)
        return;
    printf("failed %s %d\n", what, result);
    exit(1);
}

static void say(const char *name)
{
    printf("bytes %s %lu %lu %lu\n", name, (unsigned long)standin_allocation_bytes(0),
           (unsigned long)standin_allocation_bytes(1), (unsigned long)standin_handles());
    VRAMTRACE_MARK(name);
}

static CUmemGenericAllocationHandle memory_on(int device, size_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
    CUmemGenericAllocationHandle handle;
    GOOD(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

static CUmemGenericAllocationHandle object_of(size_t bytes)
{
    CUmulticastObjectProp properties = {
        .numDevices = 2, .size = bytes, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle object;
    GOOD(cuMulticastCreate(&object, &properties));
    for (int device = 0; device < 2; device++) {
        uint64_t before = standin_device_bytes(device);
        GOOD(cuMulticastAddDevice(object, device));
        printf("added %d %lu\n", device, (unsigned long)(standin_device_bytes(device) - before));
    }
    return object;
}

static CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr address;
    GOOD(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

/* Everything is taken back, one after the other. */
static void orderly(void)
{
    CUdeviceptr window = reserve(8 * MIB), own = reserve(8 * MIB);
    CUmemGenericAllocationHandle object = object_of(8 * MIB), memory[2], retained;
    say("object");
    for (int device = 0; device < 2; device++) {
        memory[device] = memory_on(device, (4 + 4 * (size_t)device) * MIB);
        GOOD(cuMulticastBindMem(object, 4 * MIB, memory[device], 0, 4 * MIB, 0));
    }
    say("bound");
    BAD(cuMulticastBindMem(object, 4 * MIB, memory[0], 0, 4 * MIB, 0)); /* there is something */
    GOOD(cuMemMap(own, 8 * MIB, 0, memory[1], 0));
    GOOD(cuMulticastBindAddr_v2(object, 1, 0, own + 4 * MIB, 4 * MIB, 0));
    GOOD(cuMemMap(window, 8 * MIB, 0, object, 0));
    say("window");
    GOOD(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)(window + 2 * MIB)));
    GOOD(cuMemRelease(object));
    GOOD(cuMemRelease(memory[0]));
    GOOD(cuMemRelease(memory[1]));
    GOOD(cuMemUnmap(own, 8 * MIB));
    say("released");
    BAD(cuMulticastUnbind(object, 0, 0, 4 * MIB));
    GOOD(cuMulticastUnbind(object, 1, 4 * MIB, 4 * MIB));
    say("unbound_half");
    GOOD(cuMulticastUnbind(object, 1, 0, 4 * MIB));
    say("unbound_1");
    GOOD(cuMulticastUnbind(object, 0, 4 * MIB, 4 * MIB));
    say("unbound");
    GOOD(cuMemUnmap(window, 8 * MIB));
    GOOD(cuMemRelease(retained));
    say("orderly");
    GOOD(cuMemAddressFree(window, 8 * MIB));
    GOOD(cuMemAddressFree(own, 8 * MIB));
}

/* The object goes with memory still bound, some of which another object has too. */
static void at_once(void)
{
    CUdeviceptr window = reserve(4 * MIB);
    CUmemGenericAllocationHandle first = object_of(4 * MIB), second = object_of(4 * MIB);
    CUmemGenericAllocationHandle memory[2] = {memory_on(0, 4 * MIB), memory_on(1, 4 * MIB)};
    for (int device = 0; device < 2; device++)
        GOOD(cuMulticastBindMem_v2(first, device, 0, memory[device], 0, 4 * MIB, 0));
    GOOD(cuMulticastBindMem(second, 0, memory[1], 0, 4 * MIB, 0));
    GOOD(cuMemMap(window, 4 * MIB, 0, first, 0));
    GOOD(cuMemRelease(memory[0]));
    GOOD(cuMemRelease(memory[1]));
    GOOD(cuMemRelease(first));
    say("still_mapped");
    GOOD(cuMemUnmap(window, 4 * MIB));
    say("first_gone");
    GOOD(cuMemRelease(second));
    say("at_once");
    GOOD(cuMemAddressFree(window, 4 * MIB));
}

/* The object comes back through a descriptor, as another rank in the same process takes it. */
static void imported(void)
{
    CUmemGenericAllocationHandle object = object_of(2 * MIB), again, memory = memory_on(0, 2 * MIB);
    int descriptor;
    GOOD(cuMemExportToShareableHandle(&descriptor, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    GOOD(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)descriptor,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(descriptor);
    GOOD(cuMemRelease(object));
    GOOD(cuMulticastBindMem(again, 0, memory, 0, 2 * MIB, 0));
    GOOD(cuMemRelease(memory));
    say("import");
    GOOD(cuMemRelease(again));
    say("import_gone");
}

/* Memory of a pool can be bound; who frees it does not ask. */
static void pooled(void)
{
    CUmemGenericAllocationHandle object = object_of(4 * MIB);
    CUdeviceptr address;
    GOOD(cuMemAllocAsync(&address, 4 * MIB, NULL));
    GOOD(cuMulticastBindAddr(object, 0, address, 4 * MIB, 0));
    say("pool");
    GOOD(cuMulticastUnbind(object, 0, 0, 4 * MIB));
    GOOD(cuMemFreeAsync(address, NULL));
    GOOD(cuMemRelease(object));
}

/* Calls in any order with what earlier ones gave, alive or not: many are refused. */
static void at_random(uint64_t random)
{
    enum { HANDLES = 6, CALLS = 400, CALLS_PER_MARK = 10, SLOTS = 8 };
    CUmemGenericAllocationHandle handles[HANDLES] = {0}, retained;
    CUdeviceptr space = reserve(SLOTS * 4 * MIB);
    for (int i = 0; i < CALLS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        unsigned r = (unsigned)(random >> 33);
        CUmemGenericAllocationHandle *one = &handles[r % HANDLES], *other = &handles[r / 8 % HANDLES];
        CUdeviceptr address = space + (r / 64 % SLOTS) * 4 * MIB;
        size_t offset = (r / 512 % 2) * 2 * MIB, bytes = (r / 1024 % 2 + 1) * 2 * MIB;
        int device = r / 2048 % 2;
        switch (r / 4096 % 9) {
        case 0:
            *one = memory_on(device, 4 * MIB);
            break;
        case 1:
            *one = object_of(4 * MIB);
            break;
        case 2:
            cuMemRelease(*one);
            break;
        case 3:
            cuMemMap(address, bytes, offset, *one, 0);
            break;
        case 4:
            cuMemUnmap(address, bytes);
            break;
        case 5:
            cuMulticastBindMem(*one, offset, *other, 0, bytes, 0);
            break;
        case 6:
            cuMulticastBindAddr(*one, offset, address, bytes, 0);
            break;
        case 7:
            cuMulticastUnbind(*one, device, offset, bytes);
            break;
        default:
            cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)address);
        }
        if (i % CALLS_PER_MARK == 0) {
            char name[16];
            snprintf(name, sizeof(name), "call_%d", i);
            say(name);
        }
    }
}

int main(int argc, char **argv)
{
    CUcontext context;
    GOOD(cuInit(0));
    GOOD(cuDevicePrimaryCtxRetain(&context, 0));
    GOOD(cuCtxSetCurrent(context));
    if (argc > 1) {
        at_random(strtoull(argv[1], NULL, 10));
        return 0;
    }
    orderly();
    at_once();
    imported();
    pooled();
    return 0;
}
