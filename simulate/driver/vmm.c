/* Virtual memory management: physical handles, reserved addresses, mappings. Physical bytes live until the
 * last reference is released and the last mapping and multicast binding are gone. Mappings do not share their
 * contents: what one address shows is not seen through another mapping of the same handle. */
#include "vmm.h"

#include "truth.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct reservation {
    struct reservation *next;
    uintptr_t start;
    size_t bytes;
};

struct shared_handle { /* what the file behind an exported descriptor holds */
    char magic[8];
    int64_t pid;
    CUmemGenericAllocationHandle handle;
    uint64_t bytes;
    CUmemAllocationProp properties;
    unsigned team; /* devices of a multicast object, 0 of memory */
};
static const char shared_magic[8] = "STNDVMM";

static struct standin_physical *physicals;
static struct reservation *reservations;

struct standin_physical *standin_physical_of(CUmemGenericAllocationHandle handle)
{
    struct standin_physical *physical = physicals;
    while (physical != NULL && physical->handle != handle)
        physical = physical->next;
    return physical;
}

static bool on_device(const struct standin_physical *physical)
{
    return physical->properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

void standin_physical_drop(struct standin_physical *physical)
{
    if (physical->references != 0 || physical->mappings != 0 || physical->bindings != 0)
        return;
    if (physical->team != 0)
        standin_multicast_end(physical);
    else if (!physical->foreign && on_device(physical))
        standin_give(physical->properties.location.id, USE_PHYSICAL, physical->bytes);
    else if (!physical->foreign)
        standin_host_used_bytes -= physical->bytes;
    struct standin_physical **link = &physicals;
    while (*link != physical)
        link = &(*link)->next;
    *link = physical->next;
    free(physical);
}

struct standin_physical *standin_physical_new(size_t bytes, const CUmemAllocationProp *properties)
{
    struct standin_physical *physical = calloc(1, sizeof(*physical));
    if (physical == NULL)
        return NULL;
    /* Handles are not addresses in the real driver either; a high tag catches mixing them up. */
    physical->handle = 0x5d00000000000000ull | standin_next_id();
    physical->properties = *properties;
    physical->bytes = bytes;
    physical->references = 1;
    physical->next = physicals;
    physicals = physical;
    return physical;
}

static bool properties_valid(const CUmemAllocationProp *prop)
{
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return false;
    switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return standin_device_valid(prop->location.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return true;
    default:
        return false;
    }
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    (void)option;
    DRIVER_CALL();
    REQUIRE(granularity != NULL && properties_valid(prop));
    *granularity = STANDIN_GRANULARITY_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    DRIVER_CALL();
    REQUIRE(handle != NULL && properties_valid(prop) && flags == 0);
    REQUIRE(size != 0 && size % STANDIN_GRANULARITY_BYTES == 0);
    bool device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (standin_fails())
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (device && !standin_take(prop->location.id, USE_PHYSICAL, size))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!device)
        standin_host_used_bytes += size;
    struct standin_physical *physical = standin_physical_new(size, prop);
    if (physical == NULL)
        abort();
    *handle = physical->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    DRIVER_CALL();
    struct standin_physical *physical = standin_physical_of(handle);
    REQUIRE(physical != NULL && physical->references != 0);
    physical->references--;
    standin_physical_drop(physical);
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    DRIVER_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)addr);
    REQUIRE(handle != NULL && range != NULL && range->kind == KIND_MAPPED);
    struct standin_physical *physical = range->owner;
    physical->references++;
    *handle = physical->handle;
    return CUDA_SUCCESS;
}

uint64_t standin_handles(void)
{
    __attribute__((cleanup(standin_unlock), unused)) int guard = standin_lock();
    uint64_t count = 0;
    for (struct standin_physical *at = physicals; at != NULL; at = at->next)
        count++;
    return count;
}

void standin_write_physicals(FILE *out)
{
    for (struct standin_physical *at = physicals; at != NULL; at = at->next) {
        if (at->team == 0)
            fprintf(out, "%s 0x%llx %zu %d\n", at->foreign ? "imported" : "physical", at->handle, at->bytes,
                    on_device(at) ? at->properties.location.id : -1);
    }
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    DRIVER_CALL();
    struct standin_physical *physical = standin_physical_of(handle);
    REQUIRE(prop != NULL && physical != NULL && physical->team == 0);
    *prop = physical->properties;
    return CUDA_SUCCESS;
}

/* ---- Addresses. */

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    (void)addr; /* only a hint */
    DRIVER_CALL();
    REQUIRE(ptr != NULL && flags == 0 && size != 0 && size % STANDIN_GRANULARITY_BYTES == 0);
    REQUIRE((alignment & (alignment - 1)) == 0);
    if (alignment < STANDIN_GRANULARITY_BYTES)
        alignment = STANDIN_GRANULARITY_BYTES;
    struct reservation *reservation = calloc(1, sizeof(*reservation));
    void *start = reservation != NULL ? standin_map(size, alignment, false) : NULL;
    if (start == NULL) {
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mprotect(start, size, PROT_NONE);
    *reservation = (struct reservation){reservations, (uintptr_t)start, size};
    reservations = reservation;
    *ptr = (CUdeviceptr)(uintptr_t)start;
    return CUDA_SUCCESS;
}

static bool anything_mapped(uintptr_t start, size_t bytes)
{
    for (uintptr_t at = start; at < start + bytes; at += STANDIN_GRANULARITY_BYTES) {
        if (standin_range_find(at) != NULL)
            return true;
    }
    return false;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    DRIVER_CALL();
    for (struct reservation **link = &reservations; *link != NULL; link = &(*link)->next) {
        struct reservation *reservation = *link;
        if (reservation->start != (uintptr_t)ptr)
            continue;
        REQUIRE(reservation->bytes == size && !anything_mapped(reservation->start, size));
        standin_unmap((void *)reservation->start, size);
        *link = reservation->next;
        free(reservation);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

static bool reserved(uintptr_t start, size_t bytes)
{
    for (struct reservation *at = reservations; at != NULL; at = at->next) {
        if (start >= at->start && bytes <= at->bytes && start - at->start <= at->bytes - bytes)
            return true;
    }
    return false;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    DRIVER_CALL();
    struct standin_physical *physical = standin_physical_of(handle);
    REQUIRE(physical != NULL && physical->references != 0 && flags == 0);
    if (!standin_multicast_ready(physical))
        return CUDA_ERROR_NOT_READY;
    REQUIRE(size != 0 && size % STANDIN_GRANULARITY_BYTES == 0 && ptr % STANDIN_GRANULARITY_BYTES == 0);
    REQUIRE(offset % STANDIN_GRANULARITY_BYTES == 0);
    REQUIRE(offset <= physical->bytes && size <= physical->bytes - offset);
    REQUIRE(reserved((uintptr_t)ptr, size));
    CUdevice device = physical->team == 0 && on_device(physical) ? physical->properties.location.id : -1;
    struct standin_range *range = standin_range_add((uintptr_t)ptr, size, KIND_MAPPED, device);
    REQUIRE(range != NULL); /* something is mapped there */
    range->owner = physical;
    range->offset = offset;
    physical->mappings++;
    return CUDA_SUCCESS;
}

/* ---- Tiles of sparse arrays: what holds memory of theirs. Arrays are told by their handles alone. */

struct tile {
    struct tile *next;
    CUarrayMapInfo place;
    struct standin_physical *physical;
};
static struct tile *tiles;

static struct tile **tile_at(const CUarrayMapInfo *place)
{
    struct tile **link = &tiles;
    while (*link != NULL &&
           ((*link)->place.resource.array != place->resource.array ||
            (*link)->place.subresourceType != place->subresourceType ||
            memcmp(&(*link)->place.subresource, &place->subresource, sizeof(place->subresource)) != 0))
        link = &(*link)->next;
    return link;
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
    (void)hStream;
    CONTEXT_CALL();
    REQUIRE(mapInfoList != NULL && count != 0);
    for (unsigned int i = 0; i < count; i++) { /* all or nothing */
        bool map = mapInfoList[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP;
        REQUIRE(map ? standin_physical_of(mapInfoList[i].memHandle.memHandle) != NULL
                    : *tile_at(&mapInfoList[i]) != NULL);
    }
    for (unsigned int i = 0; i < count; i++) {
        struct tile **link = tile_at(&mapInfoList[i]), *tile = *link;
        if (tile != NULL) {
            *link = tile->next;
            tile->physical->mappings--;
            standin_physical_drop(tile->physical);
            free(tile);
        }
        if (mapInfoList[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP)
            continue;
        tile = calloc(1, sizeof(*tile));
        if (tile == NULL)
            abort();
        *tile = (struct tile){.next = tiles,
                              .place = mapInfoList[i],
                              .physical = standin_physical_of(mapInfoList[i].memHandle.memHandle)};
        tile->physical->mappings++;
        tiles = tile;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    DRIVER_CALL();
    REQUIRE(desc != NULL && count != 0 && size != 0 && size % STANDIN_GRANULARITY_BYTES == 0);
    for (uintptr_t at = (uintptr_t)ptr; at < ptr + size;) {
        struct standin_range *range = standin_range_find(at);
        REQUIRE(range != NULL && range->kind == KIND_MAPPED);
        at = range->start + range->bytes;
    }
    mprotect((void *)(uintptr_t)ptr, size,
             PROT_READ | PROT_WRITE); /* of any device: the host plays them all */
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    DRIVER_CALL();
    struct standin_range *range = standin_range_find((uintptr_t)ptr);
    REQUIRE(flags != NULL && location != NULL && range != NULL);
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    DRIVER_CALL();
    uintptr_t end = (uintptr_t)ptr + size;
    for (uintptr_t at = (uintptr_t)ptr; at < end;) { /* whole mappings only, checked before any is touched */
        struct standin_range *range = standin_range_at(at, KIND_MAPPED);
        REQUIRE(range != NULL && range->bytes <= end - at);
        at += range->bytes;
    }
    for (uintptr_t at = (uintptr_t)ptr; at < end;) {
        struct standin_range *range = standin_range_at(at, KIND_MAPPED);
        struct standin_physical *physical = range->owner;
        at += range->bytes;
        standin_range_remove(range);
        physical->mappings--;
        standin_physical_drop(physical);
    }
    mmap((void *)(uintptr_t)ptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
         0);
    return CUDA_SUCCESS;
}

/* ---- Sharing between processes: the exported descriptor is a small file that tells what is shared. */

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags)
{
    DRIVER_CALL();
    struct standin_physical *physical = standin_physical_of(handle);
    REQUIRE(shareableHandle != NULL && physical != NULL && flags == 0);
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    REQUIRE(physical->properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    struct shared_handle shared = {.pid = getpid(),
                                   .handle = handle,
                                   .bytes = physical->bytes,
                                   .properties = physical->properties,
                                   .team = physical->team};
    memcpy(shared.magic, shared_magic, sizeof(shared_magic));
    int descriptor = memfd_create("standin-physical", MFD_CLOEXEC);
    if (descriptor < 0 || pwrite(descriptor, &shared, sizeof(shared), 0) != (ssize_t)sizeof(shared))
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)shareableHandle = descriptor;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    DRIVER_CALL();
    REQUIRE(handle != NULL);
    if (shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct shared_handle shared;
    ssize_t got = pread((int)(intptr_t)osHandle, &shared, sizeof(shared), 0);
    REQUIRE(got == (ssize_t)sizeof(shared) && memcmp(shared.magic, shared_magic, sizeof(shared_magic)) == 0);
    struct standin_physical *physical = shared.pid == getpid() ? standin_physical_of(shared.handle) : NULL;
    if (physical != NULL) {
        physical->references++;
    } else {
        physical = standin_physical_new(shared.bytes, &shared.properties);
        if (physical == NULL)
            abort();
        physical->foreign = true;
        physical->team = shared.team;
    }
    *handle = physical->handle;
    return CUDA_SUCCESS;
}
