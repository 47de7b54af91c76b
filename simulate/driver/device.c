/* What a device says of itself. What gpus.def does not have is as an A100's. */
#include "standin.h"

#include <stdio.h>
#include <string.h>

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    DRIVER_CALL();
    REQUIRE(device != NULL);
    if (!standin_device_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    DRIVER_CALL();
    REQUIRE(count != NULL);
    *count = standin_settings.devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(name != NULL && len > 0);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)len, "%s", standin_settings.gpu->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(bytes != NULL);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = standin_devices[dev].total_bytes;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(uuid != NULL);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    memcpy(uuid->bytes, "stand-in device", 16);
    uuid->bytes[15] = (char)('0' + standin_settings.cards[dev]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    DRIVER_CALL();
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(pciBusId != NULL && len > 12);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", standin_settings.cards[dev] + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    DRIVER_CALL();
    unsigned domain, bus;
    REQUIRE(dev != NULL && pciBusId != NULL && sscanf(pciBusId, "%x:%x", &domain, &bus) == 2);
    for (CUdevice i = 0; i < standin_settings.devices; i++) {
        if (standin_settings.cards[i] + 1 == (int)bus) {
            *dev = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(major != NULL && minor != NULL && standin_device_valid(dev));
    *major = standin_settings.gpu->capability / 10;
    *minor = standin_settings.gpu->capability % 10;
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    DRIVER_CALL();
    REQUIRE(canAccessPeer != NULL);
    if (!standin_device_valid(dev) || !standin_device_valid(peerDev))
        return CUDA_ERROR_INVALID_DEVICE;
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}

/* What is not here is 0 (cannot), or 1 for those in abilities. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
};

static const CUdevice_attribute abilities[] = {
    CU_DEVICE_ATTRIBUTE_GPU_OVERLAP,
    CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS,
    CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING,
    CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
    CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
    CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
    CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
    CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
};

/* From these Triton and others reckon a GPU's speed. As deviceQuery tells them (see gpus.def), except the
 * clocks of a10g, h100-96gb (from 2.4 TB/s), h200 and b200. */
static const struct {
    const char *key;
    int clock_mhz, memory_mhz, bus_bits;
} speeds[] = {
    {"", 1410, 1512, 5120},          {"v100-16gb", 1530, 877, 4096},  {"v100-32gb", 1530, 877, 4096},
    {"t4", 1590, 5001, 256},         {"a10", 1695, 6251, 384},        {"a10g", 1710, 6251, 384},
    {"a100-40gb", 1410, 1215, 5120}, {"a100-80gb", 1410, 1593, 5120}, {"l4", 2040, 6251, 192},
    {"l40s", 2520, 9001, 384},       {"h100-80gb", 1980, 2619, 5120}, {"h100-96gb", 1980, 1593, 6144},
    {"h200", 1980, 3201, 6144},      {"b200", 1965, 3996, 7680},      {"rtx3090", 1695, 9751, 384},
    {"rtx4090", 2520, 10501, 384},   {"rtx5090", 2407, 14001, 512},   {"gh200", 1980, 2619, 6144},
};

static int speed_attribute(CUdevice_attribute attribute, const struct standin_gpu *gpu)
{
    size_t i = 0;
    while (i + 1 < sizeof(speeds) / sizeof(speeds[0]) && strcmp(speeds[i].key, gpu->key) != 0)
        i++;
    if (attribute == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)
        return speeds[i].bus_bits;
    return 1000 * (attribute == CU_DEVICE_ATTRIBUTE_CLOCK_RATE ? speeds[i].clock_mhz : speeds[i].memory_mhz);
}

/* Where the GPUs differ. From 8.0 on, CUDA keeps a KiB of shared memory in each block; a block may have all
 * the rest of an SM's. */
static int own_attribute(CUdevice_attribute attribute, const struct standin_gpu *gpu)
{
    const int kept_bytes = gpu->capability >= 80 ? 1024 : 0;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        return speed_attribute(attribute, gpu);
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return gpu->sms;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        return gpu->l2_kib << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return gpu->threads_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return gpu->blocks_per_sm;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return gpu->capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return gpu->capability % 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return gpu->shared_kib_per_sm << 10;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return (gpu->shared_kib_per_sm << 10) - kept_bytes;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return kept_bytes;
#if CUDA_VERSION >= 12010
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
        return gpu->capability >= 90;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: /* cards with NVSwitch, and the tests' own */
        return gpu->capability == 90 || gpu->capability == 100 || gpu->key[0] == '\0';
#endif
    default:
        return 0;
    }
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    DRIVER_CALL();
    REQUIRE(pi != NULL && attrib > 0 && attrib < CU_DEVICE_ATTRIBUTE_MAX);
    if (!standin_device_valid(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    *pi = attrib == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? standin_settings.cards[dev] + 1
                                                   : own_attribute(attrib, standin_settings.gpu);
    for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++) {
        if (attributes[i].attribute == attrib)
            *pi = attributes[i].value;
    }
    for (size_t i = 0; i < sizeof(abilities) / sizeof(abilities[0]); i++) {
        if (abilities[i] == attrib)
            *pi = 1;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice)
{
    DRIVER_CALL();
    REQUIRE(value != NULL && standin_device_valid(srcDevice) && standin_device_valid(dstDevice));
    REQUIRE(srcDevice != dstDevice);
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED;
    return CUDA_SUCCESS;
}
