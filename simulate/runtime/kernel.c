/* What nvcc's host code calls: registration of fat binaries, kernels and variables, and launches. A binary is
 * loaded into the driver at the first use of something in it, as with NVIDIA's lazy loading. */
#include "runtime.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct fat_binary {
    const void *image;
    CUlibrary library; /* NULL: not loaded yet */
};

struct entry { /* a kernel or variable, known by the address of its host twin */
    const void *host;
    const char *name;
    struct fat_binary *binary;
    size_t bytes; /* of a variable */
    CUkernel kernel;
    bool managed;
};

static pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry **table; /* open addressing; PyTorch registers some ten thousand */
static size_t table_slots, table_used;

static size_t slot_of(struct entry **slots, size_t count, const void *host)
{
    size_t slot = (size_t)(((uintptr_t)host >> 3) * 0x9e3779b97f4a7c15ull) & (count - 1);
    while (slots[slot] != NULL && slots[slot]->host != host)
        slot = (slot + 1) & (count - 1);
    return slot;
}

static void grow(void)
{
    size_t count = table_slots != 0 ? table_slots * 2 : 1024;
    struct entry **grown = calloc(count, sizeof(*grown));
    if (grown == NULL)
        abort();
    for (size_t i = 0; i < table_slots; i++) {
        if (table[i] != NULL)
            grown[slot_of(grown, count, table[i]->host)] = table[i];
    }
    free(table);
    table = grown;
    table_slots = count;
}

static struct entry *add(const void *host, const char *name, struct fat_binary *binary)
{
    pthread_mutex_lock(&table_mutex);
    if (table_used * 2 >= table_slots)
        grow();
    size_t slot = slot_of(table, table_slots, host);
    if (table[slot] == NULL) {
        table[slot] = calloc(1, sizeof(struct entry));
        if (table[slot] == NULL)
            abort();
        table_used++;
    }
    struct entry *entry = table[slot];
    *entry = (struct entry){.host = host, .name = name, .binary = binary};
    pthread_mutex_unlock(&table_mutex);
    return entry;
}

static struct entry *find(const void *host)
{
    pthread_mutex_lock(&table_mutex);
    struct entry *entry = table_slots != 0 ? table[slot_of(table, table_slots, host)] : NULL;
    pthread_mutex_unlock(&table_mutex);
    return entry != NULL && entry->binary != NULL ? entry : NULL;
}

/* ---- Registration. */

void **__cudaRegisterFatBinary(void *fatCubin);
void __cudaRegisterFatBinaryEnd(void **fatCubinHandle);
void __cudaUnregisterFatBinary(void **fatCubinHandle);
char __cudaInitModule(void **fatCubinHandle);
void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim,
                            dim3 *gDim, int *wSize);
void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName,
                       int ext, size_t size, int constant, int global);
void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant, int global);
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream);
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *fatCubin)
{
    struct fat_binary *binary = calloc(1, sizeof(*binary));
    if (binary == NULL)
        abort();
    binary->image = fatCubin;
    return (void **)binary;
}

void __cudaRegisterFatBinaryEnd(void **fatCubinHandle)
{
    (void)fatCubinHandle;
}

void __cudaUnregisterFatBinary(void **fatCubinHandle)
{
    /* Called at exit, when the driver may be gone: only forget the names of it. */
    struct fat_binary *binary = (struct fat_binary *)fatCubinHandle;
    pthread_mutex_lock(&table_mutex);
    for (size_t i = 0; i < table_slots && binary != NULL; i++) {
        if (table[i] != NULL && table[i]->binary == binary)
            table[i]->binary = NULL;
    }
    pthread_mutex_unlock(&table_mutex);
}

char __cudaInitModule(void **fatCubinHandle)
{
    (void)fatCubinHandle;
    return 1;
}

void __cudaRegisterFunction(void **fatCubinHandle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int thread_limit, uint3 *tid, uint3 *bid, dim3 *bDim,
                            dim3 *gDim, int *wSize)
{
    (void)deviceFun;
    (void)thread_limit;
    (void)tid;
    (void)bid;
    (void)bDim;
    (void)gDim;
    (void)wSize;
    add(hostFun, deviceName, (struct fat_binary *)fatCubinHandle);
}

void __cudaRegisterVar(void **fatCubinHandle, char *hostVar, char *deviceAddress, const char *deviceName,
                       int ext, size_t size, int constant, int global)
{
    (void)deviceAddress;
    (void)ext;
    (void)constant;
    (void)global;
    add(hostVar, deviceName, (struct fat_binary *)fatCubinHandle)->bytes = size;
}

void __cudaRegisterManagedVar(void **fatCubinHandle, void **hostVarPtrAddress, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant, int global)
{
    (void)deviceAddress;
    (void)ext;
    (void)constant;
    (void)global;
    struct entry *entry = add(hostVarPtrAddress, deviceName, (struct fat_binary *)fatCubinHandle);
    entry->bytes = size;
    entry->managed = true;
}

/* ---- Use. */

static pthread_mutex_t load_mutex = PTHREAD_MUTEX_INITIALIZER;

static CUresult load(struct fat_binary *binary)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&load_mutex);
    if (binary->library == NULL)
        result =
            runtime_driver.LibraryLoadData(&binary->library, binary->image, NULL, NULL, 0, NULL, NULL, 0);
    pthread_mutex_unlock(&load_mutex);
    return result;
}

static cudaError_t kernel_of(const void *host_function, CUkernel *kernel)
{
    struct entry *entry = find(host_function);
    if (entry == NULL || entry->bytes != 0)
        return cudaErrorInvalidDeviceFunction;
    CUresult result = load(entry->binary);
    pthread_mutex_lock(&load_mutex);
    if (result == CUDA_SUCCESS && entry->kernel == NULL)
        result = runtime_driver.LibraryGetKernel(&entry->kernel, entry->binary->library, entry->name);
    *kernel = entry->kernel;
    pthread_mutex_unlock(&load_mutex);
    return (cudaError_t)result;
}

cudaError_t runtime_function(const void *host_function, CUfunction *function)
{
    CUkernel kernel;
    cudaError_t error = kernel_of(host_function, &kernel);
    return error == cudaSuccess ? (cudaError_t)runtime_driver.KernelGetFunction(function, kernel) : error;
}

static cudaError_t launch(CUfunction function, dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                          cudaStream_t stream)
{
    RECORD(runtime_driver.LaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                                       (unsigned)shared_bytes, stream, arguments, NULL));
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,
                             cudaStream_t stream)
{
    RUNTIME_CALL();
    CUfunction function;
    cudaError_t error = runtime_function(func, &function);
    if (error != cudaSuccess)
        return runtime_record(error);
    return launch(function, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream)
{
    RUNTIME_CALL();
    CUfunction function;
    cudaError_t error = runtime_function(func, &function);
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.LaunchCooperativeKernel(function, gridDim.x, gridDim.y, gridDim.z, blockDim.x,
                                                  blockDim.y, blockDim.z, (unsigned)sharedMem, stream, args));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    REQUIRE(config != NULL);
    return cudaLaunchKernel(func, config->gridDim, config->blockDim, args, config->dynamicSmemBytes,
                            config->stream);
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *entryFuncAddr)
{
    RUNTIME_CALL();
    REQUIRE(kernel != NULL);
    return runtime_record(kernel_of(entryFuncAddr, (CUkernel *)kernel));
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream)
{
    RUNTIME_CALL();
    return launch((CUfunction)kernel, gridDim, blockDim, args, sharedMem, stream);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream)
{
    return __cudaLaunchKernel(kernel, gridDim, blockDim, args, sharedMem, stream);
}

struct configuration {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};
static _Thread_local struct configuration configurations[16];
static _Thread_local unsigned configuration_count;

unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                     struct CUstream_st *stream)
{
    if (configuration_count == sizeof(configurations) / sizeof(configurations[0]))
        return 1;
    configurations[configuration_count++] = (struct configuration){gridDim, blockDim, sharedMem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem, void *stream)
{
    if (configuration_count == 0)
        return runtime_record(cudaErrorMissingConfiguration);
    const struct configuration *top = &configurations[--configuration_count];
    *gridDim = top->grid;
    *blockDim = top->block;
    *sharedMem = top->shared_bytes;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

/* ---- Questions about kernels. */

cudaError_t cudaGetFuncBySymbol(cudaFunction_t *functionPtr, const void *symbolPtr)
{
    RUNTIME_CALL();
    REQUIRE(functionPtr != NULL);
    return runtime_record(runtime_function(symbolPtr, functionPtr));
}

cudaError_t cudaGetKernel(cudaKernel_t *kernelPtr, const void *entryFuncAddr)
{
    return __cudaGetKernel(kernelPtr, entryFuncAddr);
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    RUNTIME_CALL();
    REQUIRE(attr != NULL);
    CUfunction function;
    cudaError_t error = runtime_function(func, &function);
    if (error != cudaSuccess)
        return runtime_record(error);
    memset(attr, 0, sizeof(*attr));
    runtime_driver.FuncGetAttribute(&attr->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                    function);
    runtime_driver.FuncGetAttribute(&attr->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
    runtime_driver.FuncGetAttribute(&attr->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION, function);
    runtime_driver.FuncGetAttribute(&attr->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION, function);
    runtime_driver.FuncGetAttribute(&attr->maxDynamicSharedSizeBytes,
                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function);
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    RUNTIME_CALL();
    CUfunction function;
    cudaError_t error = runtime_function(func, &function);
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.FuncSetAttribute(function, (CUfunction_attribute)attr, value));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    (void)func;
    (void)cacheConfig;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
                                                                   int blockSize, size_t dynamicSMemSize,
                                                                   unsigned int flags)
{
    RUNTIME_CALL();
    CUfunction function;
    cudaError_t error = runtime_function(func, &function);
    if (error != cudaSuccess)
        return runtime_record(error);
    RECORD(runtime_driver.OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function, blockSize,
                                                                             dynamicSMemSize, flags));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
                                                          size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                  0);
}

/* ---- Variables. */

cudaError_t cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
    RUNTIME_CALL();
    struct entry *entry = find(symbol);
    if (entry == NULL || entry->bytes == 0)
        return runtime_record(cudaErrorInvalidSymbol);
    CUresult result = load(entry->binary);
    if (result == CUDA_SUCCESS && entry->managed)
        result = runtime_driver.LibraryGetManaged((CUdeviceptr *)devPtr, NULL, entry->binary->library,
                                                  entry->name);
    else if (result == CUDA_SUCCESS)
        result =
            runtime_driver.LibraryGetGlobal((CUdeviceptr *)devPtr, NULL, entry->binary->library, entry->name);
    RECORD(result);
}

cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol)
{
    struct entry *entry = find(symbol);
    if (entry == NULL || entry->bytes == 0)
        return runtime_record(cudaErrorInvalidSymbol);
    *size = entry->bytes;
    return cudaSuccess;
}

cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *address;
    cudaError_t error = cudaGetSymbolAddress(&address, symbol);
    return error == cudaSuccess ? cudaMemcpyAsync((char *)address + offset, src, count, kind, stream) : error;
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
                               enum cudaMemcpyKind kind)
{
    return cudaMemcpyToSymbolAsync(symbol, src, count, offset, kind, NULL);
}

cudaError_t cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
    void *address;
    cudaError_t error = cudaGetSymbolAddress(&address, symbol);
    return error == cudaSuccess ? cudaMemcpyAsync(dst, (char *)address + offset, count, kind, stream) : error;
}

cudaError_t cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
                                 enum cudaMemcpyKind kind)
{
    return cudaMemcpyFromSymbolAsync(dst, symbol, count, offset, kind, NULL);
}

/* ---- Libraries by hand. */

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jitOptions,
                                void **jitOptionsValues, unsigned int numJitOptions,
                                enum cudaLibraryOption *libraryOptions, void **libraryOptionValues,
                                unsigned int numLibraryOptions)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.LibraryLoadData((CUlibrary *)library, code, (CUjit_option *)jitOptions,
                                          jitOptionsValues, numJitOptions, (CUlibraryOption *)libraryOptions,
                                          libraryOptionValues, numLibraryOptions));
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.LibraryUnload((CUlibrary)library));
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *pKernel, cudaLibrary_t library, const char *name)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.LibraryGetKernel((CUkernel *)pKernel, (CUlibrary)library, name));
}

cudaError_t cudaLibraryGetGlobal(void **dptr, size_t *bytes, cudaLibrary_t library, const char *name)
{
    RUNTIME_CALL();
    RECORD(runtime_driver.LibraryGetGlobal((CUdeviceptr *)dptr, bytes, (CUlibrary)library, name));
}
