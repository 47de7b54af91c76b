/* How the runtime finds and starts the driver, whose context is current, and the last error. */
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#define MAXIMUM_DEVICES 64

struct runtime_driver runtime_driver;

static pthread_once_t find_once = PTHREAD_ONCE_INIT, start_once = PTHREAD_ONCE_INIT;
static cudaError_t find_error, start_error;
static int device_count;
static pthread_mutex_t primary_mutex = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAXIMUM_DEVICES];
static _Thread_local int current_device;
static _Thread_local cudaError_t last_error;

static void look_up(const char *name, void **function, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    if (runtime_driver.GetProcAddress(name, function, version, flags, &status) != CUDA_SUCCESS ||
        *function == NULL)
        find_error = cudaErrorInsufficientDriver;
}

/* In NVIDIA's order of things: everything is looked up before cuInit. */
static void find_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *probe = NULL;
    CUdriverProcAddressQueryResult status;
    if (library != NULL)
        *(void **)&runtime_driver.GetProcAddress = dlsym(library, "cuGetProcAddress_v2");
    if (runtime_driver.GetProcAddress == NULL) {
        find_error = cudaErrorInsufficientDriver;
        return;
    }
    runtime_driver.GetProcAddress("", &probe, 0, 0, &status);
#define DRIVER(name, version) look_up("cu" #name, (void **)&runtime_driver.name, version, 0);
#define PER_THREAD(name, version)                                                                            \
    DRIVER(name, version)                                                                                    \
    look_up("cu" #name, (void **)&runtime_driver.name##_ptsz, version < 7000 ? 7000 : version,               \
            CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#include "driver_functions.def"
}

static void start_driver(void)
{
    start_error = (cudaError_t)runtime_driver.Init(0);
    if (start_error == cudaSuccess)
        start_error = (cudaError_t)runtime_driver.DeviceGetCount(&device_count);
}

static cudaError_t runtime_find(void)
{
    pthread_once(&find_once, find_driver);
    return find_error;
}

cudaError_t runtime_begin(void)
{
    cudaError_t error = runtime_find();
    if (error != cudaSuccess)
        return error;
    pthread_once(&start_once, start_driver);
    return start_error;
}

static cudaError_t retain_primary(int device)
{
    CUresult result = CUDA_SUCCESS;
    unsigned flags;
    int active;
    pthread_mutex_lock(&primary_mutex);
    /* Another library may have reset or released it under us: then it is retained anew. */
    if (primary[device] != NULL)
        result = runtime_driver.DevicePrimaryCtxGetState(device, &flags, &active);
    if (result == CUDA_SUCCESS && (primary[device] == NULL || !active))
        result = runtime_driver.DevicePrimaryCtxRetain(&primary[device], device);
    CUcontext context = primary[device];
    pthread_mutex_unlock(&primary_mutex);
    if (result == CUDA_SUCCESS)
        result = runtime_driver.CtxSetCurrent(context);
    return (cudaError_t)result;
}

cudaError_t runtime_enter(void)
{
    cudaError_t error = runtime_begin();
    CUcontext context = NULL;
    if (error == cudaSuccess)
        error = (cudaError_t)runtime_driver.CtxGetCurrent(&context);
    if (error != cudaSuccess || context != NULL)
        return error;
    return retain_primary(current_device);
}

cudaError_t runtime_record(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last_error = error;
    return error;
}

int runtime_device(void)
{
    CUdevice device;
    CUcontext context = NULL;
    if (runtime_driver.CtxGetCurrent(&context) == CUDA_SUCCESS && context != NULL &&
        runtime_driver.CtxGetDevice(&device) == CUDA_SUCCESS)
        return device;
    return current_device;
}

/* ---- Errors. */

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR(error, text)                                                                                   \
    {                                                                                                        \
        error, #error, text                                                                                  \
    }
    ERROR(cudaSuccess, "no error"),
    ERROR(cudaErrorInvalidValue, "invalid argument"),
    ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ERROR(cudaErrorInitializationError, "initialization error"),
    ERROR(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    ERROR(cudaErrorInvalidSymbol, "invalid device symbol"),
    ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(cudaErrorNotReady, "device not ready"),
    ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    ERROR(cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR(cudaErrorNotSupported, "operation not supported"),
    ERROR(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return errors[i].name;
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            return errors[i].text;
    }
    return "unrecognized error code";
}

/* ---- Which device, and its whole. */

cudaError_t cudaGetDeviceCount(int *count)
{
    REQUIRE(count != NULL);
    *count = 0;
    cudaError_t error = runtime_begin();
    if (error == cudaSuccess)
        *count = device_count;
    return runtime_record(error);
}

cudaError_t cudaGetDevice(int *device)
{
    REQUIRE(device != NULL);
    cudaError_t error = runtime_begin();
    if (error == cudaSuccess)
        *device = runtime_device();
    return runtime_record(error);
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = runtime_begin();
    if (error == cudaSuccess && (device < 0 || device >= device_count))
        error = cudaErrorInvalidDevice;
    if (error != cudaSuccess)
        return runtime_record(error);
    current_device = device;
    return runtime_record(retain_primary(device)); /* since 12.0 this call makes the context */
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    (void)deviceFlags;
    (void)flags;
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    int before = current_device;
    CUcontext context = NULL;
    runtime_driver.CtxGetCurrent(&context);
    error = cudaSetDevice(device);
    current_device = before;
    runtime_driver.CtxSetCurrent(context);
    return runtime_record(error);
}

cudaError_t cudaDeviceReset(void)
{
    cudaError_t error = runtime_begin();
    if (error != cudaSuccess)
        return runtime_record(error);
    int device = runtime_device();
    pthread_mutex_lock(&primary_mutex);
    primary[device] = NULL;
    error = (cudaError_t)runtime_driver.DevicePrimaryCtxReset(device);
    pthread_mutex_unlock(&primary_mutex);
    runtime_driver.CtxSetCurrent(NULL);
    return runtime_record(error);
}

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    REQUIRE(driverVersion != NULL);
    *driverVersion = 0;
    if (runtime_find() == cudaSuccess)
        runtime_driver.DriverGetVersion(driverVersion);
    return cudaSuccess; /* 0 where there is no driver, and no error */
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    REQUIRE(runtimeVersion != NULL);
    *runtimeVersion = STANDIN_RUNTIME_VERSION;
    return cudaSuccess;
}

/* ---- Driver functions for the program. */

static cudaError_t entry_point(const char *symbol, void **function, int version, unsigned long long flags,
                               enum cudaDriverEntryPointQueryResult *status)
{
    REQUIRE(symbol != NULL && function != NULL && flags <= 2);
    cudaError_t error = runtime_find();
    if (error != cudaSuccess)
        return runtime_record(error);
    CUdriverProcAddressQueryResult answer;
    error = (cudaError_t)runtime_driver.GetProcAddress(symbol, function, version, flags, &answer);
    if (error == cudaSuccess && status != NULL)
        *status = (enum cudaDriverEntryPointQueryResult)answer;
    return runtime_record(error);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, (int)cudaVersion, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr,
                                                  unsigned int cudaVersion, unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *driverStatus);
cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char *symbol, void **funcPtr,
                                                  unsigned int cudaVersion, unsigned long long flags,
                                                  enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, (int)cudaVersion, flags != 0 ? flags : 2, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, STANDIN_RUNTIME_VERSION, flags, driverStatus);
}

cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus);
cudaError_t cudaGetDriverEntryPoint_ptsz(const char *symbol, void **funcPtr, unsigned long long flags,
                                         enum cudaDriverEntryPointQueryResult *driverStatus)
{
    return entry_point(symbol, funcPtr, STANDIN_RUNTIME_VERSION, flags != 0 ? flags : 2, driverStatus);
}
