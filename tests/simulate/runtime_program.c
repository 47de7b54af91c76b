/* A program of the runtime: what it allocates shows in the driver's books. Run as a test, and an easy thing
 * to trace. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((uint64_t)1 << 20)
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)
#define OK(call) CHECK((call) == cudaSuccess)

static uint64_t (*allocation_bytes)(int device);
static uint64_t (*host_bytes)(void);

static void expect(uint64_t bytes)
{
    CHECK(allocation_bytes(0) == bytes);
}

static void plain_memory(void)
{
    void *a, *b, *c;
    size_t pitch, free_bytes, total_bytes;
    OK(cudaMalloc(&a, 5 * MIB));
    OK(cudaMallocPitch(&b, &pitch, 700, 3));
    OK(cudaMallocManaged(&c, MIB, cudaMemAttachGlobal));
    expect(6 * MIB + 3 * 1024);
    CHECK(cudaFree((char *)a + 1) == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaErrorInvalidValue);
    CHECK(cudaGetLastError() == cudaSuccess);
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(c));
    OK(cudaFree(NULL));
    OK(cudaMemGetInfo(&free_bytes, &total_bytes));
    CHECK(cudaMalloc(&a, free_bytes + 1) == cudaErrorMemoryAllocation);
    CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
    CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
    OK(cudaMallocHost(&a, 3 * MIB));
    CHECK(host_bytes() == 3 * MIB);
    OK(cudaFreeHost(a));
    expect(0);
}

static void pools_and_arrays(void)
{
    void *a, *b;
    cudaStream_t stream;
    cudaArray_t array;
    struct cudaChannelFormatDesc channel = {32, 0, 0, 0, cudaChannelFormatKindFloat};
    OK(cudaStreamCreate(&stream));
    OK(cudaMallocAsync(&a, MIB, stream));
    OK(cudaMallocAsync(&b, 40 * MIB, stream));
    expect(64 * MIB);
    OK(cudaFreeAsync(a, stream));
    OK(cudaFreeAsync(b, stream));
    OK(cudaStreamSynchronize(stream));
    expect(0);
    OK(cudaMallocArray(&array, &channel, 64, 64, 0));
    expect(64 * 64 * 4);
    OK(cudaFreeArray(array));
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
    OK(cudaStreamIsCapturing(stream, &status));
    CHECK(status == cudaStreamCaptureStatusNone);
    OK(cudaStreamDestroy(stream));
    expect(0);
}

static void contents(void)
{
    int in[100], out[100];
    void *a;
    for (int i = 0; i < 100; i++)
        in[i] = i;
    OK(cudaMalloc(&a, sizeof(in)));
    OK(cudaMemcpy(a, in, sizeof(in), cudaMemcpyHostToDevice));
    OK(cudaMemcpyAsync(out, a, sizeof(in), cudaMemcpyDeviceToHost, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(out[99] == 99);
    struct cudaPointerAttributes attributes;
    OK(cudaPointerGetAttributes(&attributes, a));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.device == 0);
    OK(cudaPointerGetAttributes(&attributes, in));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    OK(cudaFree(a));
}

static void entry_points(void *driver)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12000, cudaEnableDefault, &status));
    CHECK(status == cudaDriverEntryPointSuccess);
    /* Where a tool stands in between, the address may be its own; without one it is the driver's. */
    if (getenv("LD_PRELOAD") == NULL)
        CHECK(function == dlsym(driver, "cuMemAlloc_v2"));
    OK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &status));
    CHECK(function == NULL && status == cudaDriverEntryPointSymbolNotFound);
}

int main(void)
{
    OK(cudaFree(NULL)); /* starts the runtime, which loads the driver */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    CHECK(driver != NULL);
    *(void **)&allocation_bytes = dlsym(driver, "standin_allocation_bytes");
    *(void **)&host_bytes = dlsym(driver, "standin_host_bytes");
    CHECK(allocation_bytes != NULL && host_bytes != NULL);
    plain_memory();
    pools_and_arrays();
    contents();
    entry_points(driver);
    OK(cudaDeviceReset());
    puts("the runtime's calls are in the driver's books");
    return 0;
}
