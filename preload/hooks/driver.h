/* What every libcuda wrapper (hook_*.c) is written with.
 *
 * A wrapper passes its arguments on as they came, records before or after (frees before, allocations after,
 * so that no address is used again ahead of its free in the trace), and returns what the real function
 * returned. Nothing here changes errno or holds a lock across a call. */
#ifndef VT_HOOK_H
#define VT_HOOK_H

/* cuda.h then declares each function by its exported name, old ABIs included, instead of by macro. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "hooks/older_headers.h"
#include "hooks/hooks.h"
#include "loader/lookup.h"
#include "vramtrace/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Begins the definition of the wrapper of `symbol`, exported under that name. cuda.h's declaration checks the
 * parameters. */
#define VT_HOOK(symbol, parameters)                                                                          \
    CUresult vt_hook_##symbol parameters;                                                                    \
    extern __typeof__(symbol) symbol __attribute__((alias("vt_hook_" #symbol), visibility("default")));      \
    CUresult vt_hook_##symbol parameters

/* Declares `real`, or leaves the wrapper as a missing function would. */
#define VT_REAL(symbol)                                                                                      \
    __typeof__(symbol) *real = (__typeof__(symbol) *)vt_function_to_call(VT_FUNCTION_##symbol);              \
    if (real == NULL)                                                                                        \
    return CUDA_ERROR_NOT_FOUND

/* Declares a function that the wrapper asks; it may be NULL. */
#define VT_NEED(variable, symbol)                                                                            \
    __typeof__(symbol) *variable = (__typeof__(symbol) *)vt_real_function(VT_FUNCTION_##symbol)

#define VT_NO_DEVICE ((int8_t)-1)

static inline int8_t vt_device_index(CUdevice device)
{
    return device >= 0 && device < (CUdevice)VT_MAX_DEVICES ? (int8_t)device : VT_NO_DEVICE;
}

struct vt_allocation {
    enum vt_function function;
    uint8_t kind; /* enum vt_event_kind; 0 = VT_EVENT_ALLOC */
    uint8_t flags;
    int8_t device_index;
    uint64_t address;
    uint64_t bytes;
    uint64_t detail;
    uint64_t total_bytes;
};

/* Before the real call of an allocation: tells the current device and, the first time, what is used on it.
 * Returns its index or VT_NO_DEVICE. */
int8_t vt_before_allocation(void);

/* After the real call: records it, or the failure. */
void vt_after_allocation(const struct vt_allocation *made, CUresult result);

/* Round the real call of a free, or of another call that takes something back (`kind`). Nothing is recorded
 * for address 0. A failure is corrected by VT_EVENT_FREE_FAILED, whatever the kind was. */
void vt_before_free(const struct vt_allocation *taken_back);
void vt_after_free(const struct vt_allocation *taken_back, CUresult result);

/* An event that needs no more than its fields, and its stack. */
void vt_driver_event(const struct vt_allocation *event);
void vt_driver_event_within(const struct vt_allocation *event); /* within the guard; without a stack */

/* Bytes of the allocation that `address` lies in, as the driver tells; 0 if it does not. */
uint64_t vt_range_bytes(CUdeviceptr address);

/* Round a call that changes what is used on the device without saying so: records the difference, if the
 * context's device tells one and nothing else was recorded meanwhile. */
struct vt_bracket {
    bool open;
    int8_t device_index;
    uint64_t used_bytes;
    uint64_t changes;
};
struct vt_bracket vt_bracket_open(void);
void vt_bracket_close(const struct vt_bracket *bracket, enum vt_function function);

/* For calls of ours to libcuda that a stream capture in this or another thread would forbid or be broken by:
 * enters the guard and makes this thread's capture mode relaxed. Not begun: the caller must not ask. */
struct vt_question {
    bool begun;
    bool mode_changed;
    CUstreamCaptureMode mode;
    int saved_errno;
};
void vt_question_open(struct vt_question *question);
static inline __attribute__((always_inline)) struct vt_question vt_question_begin(void)
{
    struct vt_question question; /* in the caller's frame, which is what the guard remembers */
    vt_question_open(&question);
    return question;
}
void vt_question_end(struct vt_question *question);

/* Between vt_question_begin and _end. */
void vt_record_memory_info(int8_t device_index, bool even_if_recent);

/* A free gives reserved bytes of a pool back at some later synchronisation, so every pool is looked at now
 * and then: at most once in 10 ms unless told otherwise. */
void vt_poll_pools(enum vt_function function, bool even_if_recent);

/* True at most once in 10 ms for each `last_ns`, which begins as 0. */
bool vt_interval_passed(_Atomic uint64_t *last_ns);

#endif
