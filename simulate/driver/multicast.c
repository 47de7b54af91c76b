/* Multicast objects: address windows onto memory of several devices. An object has no memory of its own; what
 * is bound to it stays charged where it was created, and lives until it is unbound or the object has ended.
 *
 * The real driver lets calls wait until all devices have been added; here they fail with "not ready". An
 * object of another process passes for complete. */
#include "vmm.h"

#include <stdlib.h>

#if CUDA_VERSION < 13010 /* cuda.h does not declare them yet */
CUresult CUDAAPI cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                       CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                       unsigned long long flags);
CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                        CUdeviceptr memptr, size_t size, unsigned long long flags);
#endif

struct standin_binding {
    struct standin_binding *next;
    struct standin_physical *memory; /* NULL: of a pool */
    CUdevice device;
    size_t offset, bytes; /* in the object */
};

static struct standin_physical *object_of(CUmemGenericAllocationHandle handle)
{
    struct standin_physical *object = standin_physical_of(handle);
    return object != NULL && object->team != 0 && object->references != 0 ? object : NULL;
}

bool standin_multicast_ready(const struct standin_physical *physical)
{
    return physical->team == 0 || physical->foreign ||
           (unsigned)__builtin_popcount(physical->members) == physical->team;
}

static bool aligned(size_t bytes)
{
    return bytes % STANDIN_GRANULARITY_BYTES == 0;
}

static void end_binding(struct standin_binding **link)
{
    struct standin_binding *binding = *link;
    struct standin_physical *memory = binding->memory;
    *link = binding->next;
    free(binding);
    if (memory == NULL)
        return;
    memory->bindings--;
    standin_physical_drop(memory);
}

void standin_multicast_end(struct standin_physical *object)
{
    while (object->bound != NULL)
        end_binding(&object->bound);
}

static bool properties_valid(const CUmulticastObjectProp *properties)
{
    return properties != NULL && properties->numDevices != 0 &&
           properties->numDevices <= (unsigned)standin_settings.devices && properties->size != 0 &&
           aligned(properties->size) && properties->flags == 0;
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    (void)option;
    DRIVER_CALL();
    REQUIRE(granularity != NULL && prop != NULL);
    *granularity = STANDIN_GRANULARITY_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
    DRIVER_CALL();
    REQUIRE(mcHandle != NULL && properties_valid(prop));
    CUmemAllocationProp properties = {.requestedHandleTypes = (CUmemAllocationHandleType)prop->handleTypes};
    struct standin_physical *object = standin_physical_new(prop->size, &properties);
    if (object == NULL)
        abort();
    object->team = prop->numDevices;
    *mcHandle = object->handle;
    return CUDA_SUCCESS;
}

/* A device that joins its first team loses so much, for good: what a real driver may take for itself. */
static CUresult charge(CUdevice device)
{
    static uint32_t charged;
    if ((charged & 1u << device) != 0)
        return CUDA_SUCCESS;
    if (!standin_take(device, USE_CONTEXT, standin_settings.multicast_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    charged |= 1u << device;
    return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    DRIVER_CALL();
    struct standin_physical *object = object_of(mcHandle);
    REQUIRE(object != NULL);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    REQUIRE((object->members & 1u << dev) == 0);
    REQUIRE((unsigned)__builtin_popcount(object->members) < object->team);
    CUresult result = charge(dev);
    if (result == CUDA_SUCCESS)
        object->members |= 1u << dev;
    return result;
}

static CUresult bind(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                     struct standin_physical *memory, size_t bytes, unsigned long long flags)
{
    struct standin_physical *object = object_of(handle);
    REQUIRE(object != NULL && flags == 0 && bytes != 0 && aligned(bytes) && aligned(offset));
    REQUIRE(offset <= object->bytes && bytes <= object->bytes - offset);
    if (!standin_multicast_ready(object))
        return CUDA_ERROR_NOT_READY;
    REQUIRE((object->members & 1u << device) != 0);
    for (struct standin_binding *at = object->bound; at != NULL; at = at->next)
        REQUIRE(at->device != device || offset >= at->offset + at->bytes || at->offset >= offset + bytes);
    struct standin_binding *binding = calloc(1, sizeof(*binding));
    if (binding == NULL)
        abort();
    *binding = (struct standin_binding){object->bound, memory, device, offset, bytes};
    object->bound = binding;
    if (memory != NULL)
        memory->bindings++;
    return CUDA_SUCCESS;
}

/* `device` -1: the memory's own. */
static CUresult bind_memory(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                            CUmemGenericAllocationHandle memory_handle, size_t memory_offset, size_t bytes,
                            unsigned long long flags)
{
    struct standin_physical *memory = standin_physical_of(memory_handle);
    REQUIRE(memory != NULL && memory->team == 0 && memory->references != 0 && aligned(memory_offset));
    REQUIRE(memory->properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE);
    REQUIRE(memory_offset <= memory->bytes && bytes <= memory->bytes - memory_offset);
    REQUIRE(device < 0 || device == memory->properties.location.id);
    return bind(handle, memory->properties.location.id, offset, memory, bytes, flags);
}

static CUresult bind_address(CUmemGenericAllocationHandle handle, CUdevice device, size_t offset,
                             CUdeviceptr address, size_t bytes, unsigned long long flags)
{
    struct standin_range *range = standin_range_find((uintptr_t)address);
    REQUIRE(range != NULL && (range->kind == KIND_MAPPED || range->kind == KIND_POOL));
    REQUIRE(bytes <= range->start + range->bytes - (uintptr_t)address);
    struct standin_physical *memory = range->kind == KIND_MAPPED ? range->owner : NULL;
    REQUIRE(range->device >= 0 && (memory == NULL || memory->team == 0));
    REQUIRE(device < 0 || device == range->device);
    return bind(handle, range->device, offset, memory, bytes, flags);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                            unsigned long long flags)
{
    DRIVER_CALL();
    return bind_memory(mcHandle, -1, mcOffset, memHandle, memOffset, size, flags);
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                               CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                               unsigned long long flags)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return bind_memory(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
                             size_t size, unsigned long long flags)
{
    DRIVER_CALL();
    return bind_address(mcHandle, -1, mcOffset, memptr, size, flags);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    DRIVER_CALL();
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    return bind_address(mcHandle, dev, mcOffset, memptr, size, flags);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size)
{
    DRIVER_CALL();
    struct standin_physical *object = object_of(mcHandle);
    REQUIRE(object != NULL && aligned(mcOffset) && aligned(size));
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    bool found = false;
    for (struct standin_binding **link = &object->bound; *link != NULL;) {
        const struct standin_binding *binding = *link;
        bool meant = binding->device == dev && binding->offset >= mcOffset &&
                     binding->offset + binding->bytes <= mcOffset + size;
        found |= meant;
        if (meant)
            end_binding(link);
        else
            link = &(*link)->next;
    }
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
