/* What the wrappers of libcuda's functions are made of; the other files here each wrap one family of
 * functions.
 *
 * A wrapper passes its arguments on unchanged, records the event before or after the call (frees before,
 * allocations after, so that the trace never shows an address reused before its free), and returns what the
 * real function returned. Nothing here changes errno or holds a lock across a call. Threads: any. */
#ifndef VT_DRIVER_H
#define VT_DRIVER_H

/* Makes cuda.h declare each function by its exported name, old ABIs included, instead of by macro. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "hooks/older_headers.h"
#include "functions.h"
#include "loader/lookup.h"
#include "record/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins the definition of the wrapper of `symbol`, which is exported under that name. cuda.h's declaration
 * checks the parameters. */
#define VT_HOOK(symbol, parameters)                                                                          \
    CUresult vt_hook_##symbol parameters;                                                                    \
    extern __typeof__(symbol) symbol __attribute__((alias("vt_hook_" #symbol), visibility("default")));      \
    CUresult vt_hook_##symbol parameters

/* Declares `real`; if there is none, the wrapper returns what a missing function would. */
#define VT_REAL(symbol)                                                                                      \
    __typeof__(symbol) *real = (__typeof__(symbol) *)vt_function_to_call(VT_FUNCTION_##symbol);              \
    if (real == NULL)                                                                                        \
    return CUDA_ERROR_NOT_FOUND

/* Declares a function of libcuda that we call ourselves; it may be NULL. */
#define VT_NEED(variable, symbol)                                                                            \
    __typeof__(symbol) *variable = (__typeof__(symbol) *)vt_real_function(VT_FUNCTION_##symbol)

#define VT_NO_DEVICE ((int8_t)-1)
#define VT_DEVICE_NOT_KNOWN ((int8_t)-2)

static inline int8_t vt_device_index(CUdevice device)
{
    return device >= 0 && device < (CUdevice)VT_MAX_DEVICES ? (int8_t)device : VT_NO_DEVICE;
}

static inline bool vt_is_on_device(CUmemLocation location)
{
    return location.type == CU_MEM_LOCATION_TYPE_DEVICE && (unsigned)location.id < VT_MAX_DEVICES;
}

/* Of a call a wrapper fills in what it knows (struct vt_observation, record.h); `kind` 0 means
 * VT_EVENT_ALLOC. Layer, stack and sequence are added.
 *
 * Before the real call of an allocation: records the current device and, the first time, its used memory.
 * Returns the device's index or VT_NO_DEVICE. */
int8_t vt_before_any_allocation(void);

/* After the real call: records the allocation, or the failure. */
void vt_after_allocation(const struct vt_observation *made, CUresult result);

/* Before and after the real call of a free, or of another call that gives something back (`kind`). Nothing
 * is recorded for address 0. If the call failed, vt_after_free records VT_EVENT_FREE_FAILED, which takes the
 * event back, whatever its kind. */
void vt_before_free(const struct vt_observation *freed);
void vt_after_free(const struct vt_observation *freed, CUresult result);

/* Records an event with its stack. The second is for callers inside the guard. */
void vt_driver_event(const struct vt_observation *event);
void vt_driver_event_within(const struct vt_observation *known, bool with_stack);

/* The device that `address` is on, as the driver says, also for managed memory; VT_NO_DEVICE = on none,
 * VT_DEVICE_NOT_KNOWN = the driver does not say. Call within the guard. */
int8_t vt_device_of(CUdeviceptr address);

/* Size of the allocation around `address`, as the driver reports it; 0 if it does not. */
uint64_t vt_range_bytes(CUdeviceptr address);

/* The context current on this thread; 0 = none, or as long as the process has had only one context. */
uint64_t vt_context_of_several(void);
/* Counts a created context. */
void vt_count_context(void);

/* Around a call that changes the device's used memory without an allocation: records the difference, if
 * there is one and nothing else was recorded in between. */
struct vt_bracket {
    bool open;
    int8_t device_index;
    uint64_t used_bytes;
    uint64_t changes;
    uint64_t primary; /* context to make current for a reading; 0 = none */
};
struct vt_bracket vt_bracket_open(void);
/* The same for a device whose context may not be current: `primary` is made current for the reading. That is
 * the device's primary context if it is alive, else 0. */
struct vt_bracket vt_bracket_open_on(int8_t device_index, uint64_t primary);
/* The difference so far, without recording it; 0 if anything was recorded in between. */
uint64_t vt_bracket_bytes(const struct vt_bracket *bracket);
/* `counted_bytes`, signed: the part of the difference that another event already has. */
void vt_bracket_close_less(const struct vt_bracket *bracket, enum vt_function function,
                           uint64_t counted_bytes);
static inline void vt_bracket_close(const struct vt_bracket *bracket, enum vt_function function)
{
    vt_bracket_close_less(bracket, function, 0);
}

/* For our own calls to libcuda. A stream capture, in this thread or another, would forbid some of them or be
 * broken by them. So this enters the guard and makes this thread's capture mode relaxed. If it has not
 * `begun`, the caller must not call libcuda. */
struct vt_query {
    bool begun;
    bool mode_changed;
    CUstreamCaptureMode mode;
    int saved_errno;
};
void vt_query_open(struct vt_query *query);
static inline __attribute__((always_inline)) struct vt_query vt_query_begin(void)
{
    struct vt_query query; /* in the caller's frame, whose address the guard keeps */
    vt_query_open(&query);
    return query;
}
void vt_query_end(struct vt_query *query);

/* Call between vt_query_begin and vt_query_end. */
void vt_record_memory_info(int8_t device_index, bool even_if_recent);

/* True at most once in 10 ms for each `last_ns`, which is 0 at first. */
bool vt_interval_passed(_Atomic uint64_t *last_ns);

#endif
