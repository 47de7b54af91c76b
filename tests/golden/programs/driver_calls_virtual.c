/* Physical memory, mappings, arrays. */
#include "driver_calls.h"

void virtual_memory(void)
{
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle, retained, host;
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    GOOD(cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
    check_value("reserve", address);
    GOOD(cuMemCreate(&handle, 4 * MIB, &properties, 0));
    check_value("create", handle);
    GOOD(cuMemMap(address, 4 * MIB, 0, handle, 0));
    GOOD(cuMemSetAccess(address, 4 * MIB, &access, 1));
    GOOD(cuMemRetainAllocationHandle(&retained, (void *)(uintptr_t)address));
    check_value("retained", retained);
    GOOD(cuMemRelease(retained));
    GOOD(cuMemRelease(handle));
    GOOD(cuMemUnmap(address, 4 * MIB));
    GOOD(cuMemAddressFree(address, 8 * MIB));
    properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (cuMemCreate(&host, 2 * MIB, &properties, 0) == CUDA_SUCCESS) {
        check_value("host", host);
        GOOD(cuMemRelease(host));
    }
}

void arrays(void)
{
    CUarray array;
    CUmipmappedArray mipmap;
    CUDA_ARRAY_DESCRIPTOR plane = {.Width = 64, .Height = 32, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR solid = {
        .Width = 16, .Height = 16, .Depth = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 2};
    GOOD(cuArrayCreate_v2(&array, &plane));
    say_alloc((uintptr_t)array, 64 * 32 * 16, 64);
    say_free((uintptr_t)array);
    GOOD(cuArrayDestroy(array));
    GOOD(cuArray3DCreate_v2(&array, &solid));
    say_alloc((uintptr_t)array, 16 * 16 * 16 * 2, 64);
    say_free((uintptr_t)array);
    GOOD(cuArrayDestroy(array));
    GOOD(cuMipmappedArrayCreate(&mipmap, &solid, 2));
    say_alloc((uintptr_t)mipmap, 16 * 16 * 16 * 2 + 8 * 8 * 8 * 2, 64);
    say_free((uintptr_t)mipmap);
    GOOD(cuMipmappedArrayDestroy(mipmap));
}

/* Memory that only tiles of a sparse array hold. */
void sparse(void)
{
    CUDA_ARRAY3D_DESCRIPTOR plane = {.Width = 1024,
                                     .Height = 1024,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = CUDA_ARRAY3D_SPARSE};
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                      .allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL};
    CUarrayMapInfo parts[2] = {{.resourceType = CU_RESOURCE_TYPE_ARRAY,
                                .subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL,
                                .memOperationType = CU_MEM_OPERATION_TYPE_MAP,
                                .memHandleType = CU_MEM_HANDLE_TYPE_GENERIC,
                                .deviceBitMask = 1}};
    CUmemGenericAllocationHandle handle;
    CUarray array;
    GOOD(cuArray3DCreate_v2(&array, &plane));
    GOOD(cuMemCreate(&handle, 4 * MIB, &properties, 0));
    parts[0].resource.array = array;
    parts[0].memHandle.memHandle = handle;
    parts[0].subresource.sparseLevel.extentWidth = 512;
    parts[0].subresource.sparseLevel.extentHeight = 1024;
    parts[0].subresource.sparseLevel.extentDepth = 1;
    parts[1] = parts[0];
    parts[1].subresource.sparseLevel.offsetX = 512;
    parts[1].offset = 2 * MIB;
    GOOD(cuMemMapArrayAsync(parts, 2, NULL));
    GOOD(cuMemRelease(handle));
    check_value("held", allocation_bytes());
    parts[0].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    GOOD(cuMemMapArrayAsync_ptsz(parts, 1, NULL));
    check_value("held", allocation_bytes());
    parts[1].memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
    GOOD(cuMemMapArrayAsync(&parts[1], 1, NULL));
    check_value("held", allocation_bytes());
    check_value("refused", cuMemMapArrayAsync(&parts[1], 1, NULL));
    GOOD(cuArrayDestroy(array));
}
