#include "hooks/driver.h"

#include "clock.h"
#include "guard.h"
#include "hooks/observe.h"

#include <stdatomic.h>

/* cuMemGetInfo is a system call in a real driver: after the first one, at most one per device in this time.
 */
#define INTERVAL_NS 10000000u

static _Atomic uint64_t last_memory_info_ns[VT_MAX_DEVICES];

/* Counts driver events of all threads. If it moved during a bracket, the difference may be another thread's.
 */
static _Atomic uint64_t changes;

bool vt_interval_passed(_Atomic uint64_t *last_ns)
{
    uint64_t now = vt_clock_ns(CLOCK_MONOTONIC), last = atomic_load_explicit(last_ns, memory_order_relaxed);
    return (last == 0 || now - last >= INTERVAL_NS) &&
           atomic_compare_exchange_strong_explicit(last_ns, &last, now, memory_order_relaxed,
                                                   memory_order_relaxed);
}

static int8_t current_device(void)
{
    VT_NEED(get_device, cuCtxGetDevice);
    CUdevice device;
    return get_device != NULL && get_device(&device) == CUDA_SUCCESS ? vt_device_index(device) : VT_NO_DEVICE;
}

static uint64_t current_context(void)
{
    VT_NEED(get_context, cuCtxGetCurrent);
    CUcontext context;
    return get_context != NULL && get_context(&context) == CUDA_SUCCESS ? (uintptr_t)context : 0;
}

static _Atomic unsigned created_contexts;

void vt_count_context(void)
{
    atomic_fetch_add_explicit(&created_contexts, 1, memory_order_relaxed);
}

uint64_t vt_context_of_several(void)
{
    return atomic_load_explicit(&created_contexts, memory_order_relaxed) > 1 ? current_context() : 0;
}

void vt_query_open(struct vt_query *query)
{
    *query = (struct vt_query){.mode = CU_STREAM_CAPTURE_MODE_RELAXED};
    query->begun = vt_enter(&query->saved_errno);
    if (!query->begun)
        return;
    VT_NEED(exchange_mode, cuThreadExchangeStreamCaptureMode);
    query->mode_changed = exchange_mode != NULL && exchange_mode(&query->mode) == CUDA_SUCCESS;
}

void vt_query_end(struct vt_query *query)
{
    if (!query->begun)
        return;
    VT_NEED(exchange_mode, cuThreadExchangeStreamCaptureMode);
    if (query->mode_changed && exchange_mode != NULL)
        exchange_mode(&query->mode);
    vt_leave(query->saved_errno);
}

static void record_device(int8_t device_index)
{
    if (vt_record_device_known(device_index))
        return;
    VT_NEED(get_name, cuDeviceGetName);
    VT_NEED(get_total, cuDeviceTotalMem_v2);
    VT_NEED(get_uuid, cuDeviceGetUuid_v2);
    char name[256] = "";
    CUuuid uuid;
    size_t total_bytes = 0;
    if (get_name == NULL || get_name(name, sizeof(name), device_index) != CUDA_SUCCESS)
        name[0] = '\0';
    if (get_total == NULL || get_total(&total_bytes, device_index) != CUDA_SUCCESS)
        total_bytes = 0;
    name[sizeof(name) - 1] = '\0';
    bool has_uuid = get_uuid != NULL && get_uuid(&uuid, device_index) == CUDA_SUCCESS;
    vt_record_device(device_index, name, total_bytes, has_uuid ? uuid.bytes : NULL);
}

static bool memory_info(size_t *free_bytes, size_t *total_bytes)
{
    VT_NEED(get_info, cuMemGetInfo_v2);
    return get_info != NULL && get_info(free_bytes, total_bytes) == CUDA_SUCCESS;
}

void vt_record_memory_info(int8_t device_index, bool even_if_recent)
{
    /* The driver reports only the current context's device. */
    if (device_index < 0 || current_device() != device_index)
        return;
    _Atomic uint64_t *last_ns = &last_memory_info_ns[device_index];
    if (!vt_interval_passed(last_ns) && !even_if_recent)
        return;
    size_t free_bytes, total_bytes;
    if (!memory_info(&free_bytes, &total_bytes))
        return;
    vt_record(&(struct vt_observation){.kind = VT_EVENT_MEMORY_INFO,
                                       .layer = VT_LAYER_DRIVER,
                                       .device_index = device_index,
                                       .bytes = free_bytes,
                                       .total_bytes = total_bytes});
}

int8_t vt_device_of(CUdeviceptr address)
{
    VT_NEED(get_attribute, cuPointerGetAttribute);
    unsigned int type = 0, managed = 0;
    int device = -1;
    CUresult result = get_attribute ? get_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address)
                                    : CUDA_ERROR_NOT_FOUND;
    if (result != CUDA_SUCCESS)
        return result == CUDA_ERROR_INVALID_VALUE ? VT_NO_DEVICE : VT_DEVICE_NOT_KNOWN;
    if (type != CU_MEMORYTYPE_DEVICE &&
        (get_attribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) != CUDA_SUCCESS || !managed))
        return VT_NO_DEVICE;
    if (get_attribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) == CUDA_SUCCESS &&
        vt_device_index(device) >= 0)
        return vt_device_index(device);
    return current_device(); /* managed memory that currently lies on the host */
}

int8_t vt_before_any_allocation(void)
{
    int saved_errno;
    if (!vt_enter(&saved_errno))
        return VT_NO_DEVICE;
    int8_t device_index = current_device();
    bool first = device_index >= 0 &&
                 atomic_load_explicit(&last_memory_info_ns[device_index], memory_order_relaxed) == 0;
    vt_leave(saved_errno);
    if (first) {
        struct vt_query query = vt_query_begin();
        if (query.begun) {
            record_device(device_index);
            vt_record_memory_info(device_index, false);
        }
        vt_query_end(&query);
    }
    return device_index;
}

void vt_driver_event_within(const struct vt_observation *known, bool with_stack)
{
    struct vt_observation event = *known;
    if (event.device_index >= 0)
        record_device(event.device_index);
    atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
    /* PyTorch's cudaMallocAsync backend takes each tensor from a pool. */
    if (with_stack && event.kind == 0 && event.flags & VT_FLAG_ASYNC)
        event.sequence = vt_current_sequence();
    if (event.kind == 0)
        event.kind = VT_EVENT_ALLOC;
    event.layer = VT_LAYER_DRIVER;
    event.with_stack = with_stack;
    vt_record(&event);
}

void vt_driver_event(const struct vt_observation *event)
{
    int saved_errno;
    if (!vt_enter_event(&saved_errno))
        return;
    vt_driver_event_within(event, true);
    vt_leave(saved_errno);
}

uint64_t vt_range_bytes(CUdeviceptr address)
{
    VT_NEED(get_range, cuMemGetAddressRange_v2);
    CUdeviceptr start;
    size_t bytes = 0;
    int saved_errno;
    if (!vt_enter(&saved_errno))
        return 0;
    if (get_range == NULL || get_range(&start, &bytes, address) != CUDA_SUCCESS)
        bytes = 0;
    vt_leave(saved_errno);
    return bytes;
}

/* Records memory information if it is due, or at once after a failure. */
static void follow_up(int8_t device_index, bool failed)
{
    if (device_index < 0)
        return;
    uint64_t last = atomic_load_explicit(&last_memory_info_ns[device_index], memory_order_relaxed);
    if (!failed && vt_clock_ns(CLOCK_MONOTONIC) - last < INTERVAL_NS)
        return;
    struct vt_query query = vt_query_begin();
    if (query.begun)
        vt_record_memory_info(device_index, failed);
    vt_query_end(&query);
}

void vt_after_allocation(const struct vt_observation *made, CUresult result)
{
    int saved_errno;
    if (result == CUDA_SUCCESS && made->address == 0)
        return;
    /* A call that fails because there is no context or device does not count as using CUDA: it starts no
     * trace. */
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY && !vt_recording())
        return;
    if (!vt_enter_event(&saved_errno))
        return;
    struct vt_observation event = *made;
    if (result != CUDA_SUCCESS) {
        event.kind = VT_EVENT_ALLOC_FAILED;
        event.address = 0;
        event.detail = result;
        event.total_bytes = 0;
    } else if (event.kind == 0 && event.detail == 0 && !(event.flags & VT_FLAG_ASYNC)) {
        event.detail = current_context();
    }
    vt_driver_event_within(&event, true);
    vt_leave(saved_errno);
    if (!(event.flags & VT_FLAG_HOST) && event.kind != VT_EVENT_RESERVE)
        follow_up(event.device_index, result != CUDA_SUCCESS);
}

void vt_before_free(const struct vt_observation *freed)
{
    int saved_errno;
    if (freed->address == 0)
        return;
    if (!vt_recording()) {
        vt_record_missed_free();
        return;
    }
    if (!vt_enter_event(&saved_errno))
        return;
    vt_driver_event_within(freed, false);
    vt_leave(saved_errno);
}

void vt_after_free(const struct vt_observation *freed, CUresult result)
{
    int saved_errno;
    if (freed->address == 0 || !vt_recording())
        return;
    if (result != CUDA_SUCCESS) {
        struct vt_observation kept = *freed;
        kept.kind = VT_EVENT_FREE_FAILED;
        kept.bytes = 0;
        vt_before_free(&kept);
        return;
    }
    if (!vt_enter(&saved_errno))
        return;
    int8_t device_index = current_device();
    vt_leave(saved_errno);
    follow_up(device_index, false);
}

static bool used_bytes(uint64_t *used)
{
    size_t free_bytes, total_bytes;
    if (!memory_info(&free_bytes, &total_bytes))
        return false;
    *used = total_bytes - free_bytes;
    return true;
}

/* A primary context's handle stays valid after the context has ended: then the driver refuses it. */
static bool used_bytes_on(int8_t device_index, uint64_t primary, uint64_t *used)
{
    VT_NEED(push, cuCtxPushCurrent_v2);
    VT_NEED(pop, cuCtxPopCurrent_v2);
    CUcontext popped;
    if (current_device() == device_index)
        return used_bytes(used);
    if (primary == 0 || push == NULL || pop == NULL || push((CUcontext)(uintptr_t)primary) != CUDA_SUCCESS)
        return false;
    const bool known = used_bytes(used);
    pop(&popped);
    return known;
}

/* Of the current device, or of this one. */
static struct vt_bracket open_bracket(bool of_current, int8_t device_index, uint64_t primary)
{
    struct vt_bracket bracket = {.device_index = device_index, .primary = primary};
    struct vt_query query = vt_query_begin();
    if (query.begun && of_current)
        bracket.device_index = current_device();
    if (query.begun && bracket.device_index >= 0) {
        record_device(bracket.device_index);
        bracket.changes = atomic_load_explicit(&changes, memory_order_acquire);
        bracket.open = used_bytes_on(bracket.device_index, primary, &bracket.used_bytes);
    }
    vt_query_end(&query);
    return bracket;
}

struct vt_bracket vt_bracket_open(void)
{
    return open_bracket(true, VT_NO_DEVICE, 0);
}

struct vt_bracket vt_bracket_open_on(int8_t device_index, uint64_t primary)
{
    return open_bracket(false, device_index, primary);
}

/* After the driver was asked. */
static uint64_t changes_now(void)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&changes, memory_order_relaxed);
}

uint64_t vt_bracket_bytes(const struct vt_bracket *bracket)
{
    uint64_t used = bracket->used_bytes;
    if (!bracket->open)
        return 0;
    struct vt_query query = vt_query_begin();
    if (query.begun &&
        (!used_bytes_on(bracket->device_index, bracket->primary, &used) || changes_now() != bracket->changes))
        used = bracket->used_bytes;
    vt_query_end(&query);
    return used - bracket->used_bytes;
}

void vt_bracket_close_less(const struct vt_bracket *bracket, enum vt_function function,
                           uint64_t counted_bytes)
{
    uint64_t used;
    if (!bracket->open)
        return;
    struct vt_query query = vt_query_begin();
    if (query.begun && current_device() == bracket->device_index && used_bytes(&used) &&
        used - bracket->used_bytes != counted_bytes) {
        if (changes_now() == bracket->changes)
            vt_driver_event_within(
                &(struct vt_observation){.function = function,
                                         .kind = VT_EVENT_DELTA,
                                         .device_index = bracket->device_index,
                                         .bytes = used - bracket->used_bytes - counted_bytes,
                                         .detail = vt_context_of_several()},
                true);
        else
            vt_record_memory_info(bracket->device_index, true);
    }
    vt_query_end(&query);
}
