/* How long single calls take: pairs of cuMemAlloc_v2 and cuMemFree_v2, in bursts, for some seconds.
 *
 *     stall SECONDS
 *
 * Prints one line: pairs, microseconds of one (p50, p99.9, longest), pairs over 1 ms; and what tells a stall
 * from a busy processor: how often the thread waited for something in a pair (voluntary context switches),
 * and its page faults. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { BURST = 100, PAUSE_NS = 1000000, LIMIT = 1 << 24 };

int cuInit(unsigned flags);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemFree_v2(uint64_t address);

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static struct rusage usage(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage;
}

static uint64_t pair_ns(void)
{
    uint64_t address, start = now_ns();
    if (cuMemAlloc_v2(&address, 4096) || cuMemFree_v2(address))
        exit(1);
    return now_ns() - start;
}

static int by_size(const void *left, const void *right)
{
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

int main(int count, char **arguments)
{
    uint32_t *taken = calloc(LIMIT, sizeof *taken);
    const double seconds = count > 1 ? atof(arguments[1]) : 5;
    size_t pairs = 0, long_ones = 0;
    long waited = 0, faults = 0;
    void *context;
    if (!taken || cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
        return 1;
    for (size_t i = 0; i < LIMIT; i += 1024) /* its pages are there before */
        taken[i] = 1;
    for (int i = 0; i < 1000; i++)
        pair_ns();
    const uint64_t end = now_ns() + (uint64_t)(seconds * 1e9);
    while (now_ns() < end && pairs + BURST <= LIMIT) {
        const struct rusage before = usage();
        for (int i = 0; i < BURST; i++) {
            const uint64_t ns = pair_ns();
            long_ones += ns > 1000000;
            taken[pairs++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
        }
        const struct rusage after = usage();
        waited += after.ru_nvcsw - before.ru_nvcsw;
        faults += after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    qsort(taken, pairs, sizeof *taken, by_size);
    printf("%zu %.2f %.2f %.1f %zu %ld %ld\n", pairs, taken[pairs / 2] / 1e3,
           taken[pairs - 1 - pairs / 1000] / 1e3, taken[pairs - 1] / 1e3, long_ones, waited, faults);
    return 0;
}
