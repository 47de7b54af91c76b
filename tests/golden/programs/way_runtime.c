/* Calls libcudart's allocating functions; linked to it shared, static by nvcc, or as a plugin. Prints for
 * each allocation what way.h's programs print, and then the function's name. */
#include <cuda_runtime_api.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)
#define GOOD(call)                                                                                           \
    do {                                                                                                     \
        cudaError_t result_ = call;                                                                          \
        if (result_ != cudaSuccess) {                                                                        \
            printf("failed %s %d\n", #call, (int)result_);                                                   \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static void say_alloc(const void *address, size_t bytes, int flags, const char *function)
{
    printf("alloc %p %zu %d %s\n", address, bytes, flags, function);
}

static void say_free(const void *address, const char *function)
{
    printf("free %p %s\n", address, function);
}

static void linear(void)
{
    void *address, *managed, *host;
    size_t pitch;
    struct cudaPitchedPtr solid;
    struct cudaExtent extent = {1000, 10, 4};
    GOOD(cudaMalloc(&address, 3 * MIB));
    say_alloc(address, 3 * MIB, 0, "cudaMalloc");
    GOOD(cudaMallocManaged(&managed, 2 * MIB, cudaMemAttachGlobal));
    say_alloc(managed, 2 * MIB, 2, "cudaMallocManaged");
    say_free(address, "cudaFree");
    GOOD(cudaFree(address));
    say_free(managed, "cudaFree");
    GOOD(cudaFree(managed));
    GOOD(cudaMallocPitch(&address, &pitch, 1000, 10));
    say_alloc(address, pitch * 10, 0, "cudaMallocPitch");
    say_free(address, "cudaFree");
    GOOD(cudaFree(address));
    GOOD(cudaMalloc3D(&solid, extent));
    say_alloc(solid.ptr, solid.pitch * 40, 0, "cudaMalloc3D");
    say_free(solid.ptr, "cudaFree");
    GOOD(cudaFree(solid.ptr));
    GOOD(cudaMallocHost(&host, 4096));
    say_alloc(host, 4096, 1, "cudaMallocHost");
    say_free(host, "cudaFreeHost");
    GOOD(cudaFreeHost(host));
    GOOD(cudaHostAlloc(&host, 8192, cudaHostAllocPortable));
    say_alloc(host, 8192, 1, "cudaHostAlloc");
    say_free(host, "cudaFreeHost");
    GOOD(cudaFreeHost(host));
    host = aligned_alloc(4096, 65536);
    GOOD(cudaHostRegister(host, 65536, cudaHostRegisterDefault));
    say_alloc(host, 65536, 17, "cudaHostRegister");
    say_free(host, "cudaHostUnregister");
    GOOD(cudaHostUnregister(host));
    GOOD(cudaFree(NULL));
}

static void ordered(void)
{
    void *first, *second;
    cudaStream_t stream;
    cudaMemPool_t pool;
    GOOD(cudaStreamCreate(&stream));
    GOOD(cudaDeviceGetDefaultMemPool(&pool, 0));
    GOOD(cudaMallocAsync(&first, 5 * MIB, stream));
    say_alloc(first, 5 * MIB, 4, "cudaMallocAsync");
    GOOD(cudaMallocFromPoolAsync(&second, MIB, pool, stream));
    say_alloc(second, MIB, 4, "cudaMallocFromPoolAsync");
    say_free(first, "cudaFreeAsync");
    GOOD(cudaFreeAsync(first, stream));
    say_free(second, "cudaFreeAsync");
    GOOD(cudaFreeAsync(second, stream));
    GOOD(cudaStreamSynchronize(stream));
}

static void arrays(void)
{
    struct cudaChannelFormatDesc channels = {32, 32, 0, 0, cudaChannelFormatKindFloat};
    struct cudaExtent extent = {16, 16, 16};
    cudaArray_t array;
    GOOD(cudaMallocArray(&array, &channels, 64, 32, 0));
    say_alloc(array, 64 * 32 * 8, 64, "cudaMallocArray");
    say_free(array, "cudaFreeArray");
    GOOD(cudaFreeArray(array));
    GOOD(cudaMalloc3DArray(&array, &channels, extent, 0));
    say_alloc(array, 16 * 16 * 16 * 8, 64, "cudaMalloc3DArray");
    say_free(array, "cudaFreeArray");
    GOOD(cudaFreeArray(array));
}

void plugin_run(void);
void plugin_run(void)
{
    linear();
    ordered();
    arrays();
    fflush(stdout);
}

#ifndef PLUGIN
int main(void)
{
    plugin_run();
    return 0;
}
#endif
