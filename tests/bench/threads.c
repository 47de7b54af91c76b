/* Allocates and frees from several threads, without Python: bench_threads driver|block|malloc THREADS PAIRS
 *
 * By the driver; as PyTorch's allocator tells its profiler of a block, here a function that does nothing; by
 * the C library. Prints nanoseconds for each pair of a thread, and the time at which main ends
 * (CLOCK_MONOTONIC, in seconds): what the process takes from then on is its exit. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda.h>

enum { BYTES = 4096, MOST_THREADS = 64 };

static long pairs;
static CUcontext context;
static pthread_barrier_t begin;

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device); /* seam.c */

static void by_driver(void)
{
    CUdeviceptr address = 0;
    cuMemAlloc(&address, BYTES);
    cuMemFree(address);
}

static void by_framework(void)
{
    enum { CUDA_DEVICE_0 = 0x0001, RESERVED = 2 << 20 };
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(&begin, BYTES, BYTES, RESERVED, CUDA_DEVICE_0);
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(&begin, -BYTES, 0, RESERVED, CUDA_DEVICE_0);
}

static void by_c_library(void)
{
    void *volatile block = malloc(BYTES);
    free(block);
}

static const struct {
    const char *name;
    void (*pair)(void);
} kinds[] = {{"driver", by_driver}, {"block", by_framework}, {"malloc", by_c_library}};
static void (*pair)(void);

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *work(void *seconds)
{
    cuCtxSetCurrent(context);
    pthread_barrier_wait(&begin);
    const double started = now();
    for (long i = 0; i < pairs; i++)
        pair();
    *(double *)seconds = now() - started;
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc == 4 ? atoi(argv[2]) : 0;
    pthread_t thread[MOST_THREADS];
    double seconds[MOST_THREADS], all = 0;
    CUdevice device;
    for (size_t i = 0; argc == 4 && i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(argv[1], kinds[i].name))
            pair = kinds[i].pair;
    if (!pair || threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "bench_threads driver|block|malloc THREADS PAIRS\n");
        return 2;
    }
    pairs = atol(argv[3]);
    if (pair != by_c_library &&
        (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device)))
        return 1;
    pthread_barrier_init(&begin, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work, &seconds[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(thread[i], NULL);
        all += seconds[i];
    }
    printf("%.1f %.6f\n", all / threads / (double)pairs * 1e9, now());
    return 0;
}
