/* Blocks of a framework that come and go, for long: bench_soak THREADS SECONDS EVENTS_PER_SECOND
 *
 * Each thread has a segment of the driver, and up to 64 blocks in it, of like sizes in a step of 1000 events; one block in a
 * million stays. Prints the events made and the bytes of blocks alive at the end. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cuda.h>

enum { BLOCKS = 64, STEP_EVENTS = 1000, STAYS = 1000000, MOST_THREADS = 16 };
#define SEGMENT_BYTES ((size_t)1 << 30)
#define PLACE_BYTES (SEGMENT_BYTES / 2 / BLOCKS)

void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *address, int64_t bytes, uint64_t allocated,
                                                           uint64_t reserved, uint16_t device); /* seam.c */

static double seconds, rate;
static CUcontext context;
static _Atomic uint64_t alive_bytes, events;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void tell(uint64_t address, int64_t bytes)
{
    /* What is allocated by all threads: 0, since threads do not count in one order. */
    _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)(uintptr_t)address, bytes, 0, 0, 1);
}

static void *work(void *argument)
{
    uint64_t made = 0, state = (uint64_t)(uintptr_t)argument, kept = 0, kept_bytes = 0;
    int64_t sizes[BLOCKS] = {0};
    CUdeviceptr segment = 0;
    cuCtxSetCurrent(context);
    if (cuMemAlloc(&segment, SEGMENT_BYTES))
        exit(1);
    const double start = now();
    for (;; made++) {
        if (made % STEP_EVENTS == 0) {
            const double due = start + (double)made / rate, at = now();
            if (at - start >= seconds)
                break;
            if (due > at)
                nanosleep(&(struct timespec){.tv_nsec = (long)((due - at) * 1e9) % 1000000000}, NULL);
        }
        if (made % STAYS == STAYS - 1 && (kept + 1) * 512 < SEGMENT_BYTES / 2) {
            tell(segment + SEGMENT_BYTES / 2 + kept++ * 512, 512);
            kept_bytes += 512;
            continue;
        }
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        const unsigned block = (unsigned)(state >> 40) % BLOCKS;
        const int64_t bytes = sizes[block] ? -sizes[block] : 512 * (1 + (int64_t)(made % STEP_EVENTS) % 64);
        tell(segment + block * PLACE_BYTES, bytes);
        sizes[block] += bytes;
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        kept_bytes += (uint64_t)sizes[i];
    atomic_fetch_add(&alive_bytes, kept_bytes);
    atomic_fetch_add(&events, made);
    return NULL;
}

int main(int argc, char **argv)
{
    const int threads = argc == 4 ? atoi(argv[1]) : 0;
    pthread_t thread[MOST_THREADS];
    CUdevice device;
    if (threads < 1 || threads > MOST_THREADS) {
        fprintf(stderr, "bench_soak THREADS SECONDS EVENTS_PER_SECOND\n");
        return 2;
    }
    seconds = atof(argv[2]);
    rate = atof(argv[3]) / threads;
    if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device))
        return 1;
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    printf("%llu %llu\n", (unsigned long long)events, (unsigned long long)alive_bytes);
    return 0;
}
