/* Time in nanoseconds. Any thread; never fails for the clocks used here. */
#ifndef VT_CLOCK_H
#define VT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t vt_clock_ns(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

#endif
