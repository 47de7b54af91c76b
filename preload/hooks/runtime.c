/* libcudart, if linked as a shared library: names the runtime call that made an allocation.
 *
 * Each function is exported once for each libcudart release, under the release's symbol version
 * (cudaMalloc@libcudart.so.12 …). So the loader resolves which libcudart a caller means, even if a process
 * has several. A caller that means none of these (another release, no version, dlsym) gets the real function
 * directly: then only the label is missing.
 *
 * The driver's wrappers record the allocation inside the call. It is recorded here, in the runtime layer,
 * only if they saw nothing. */
#include "guard.h"
#include "functions.h"
#include "loader/lookup.h"
#include "hooks/observe.h"

#include <stdatomic.h>
#include <stddef.h>

/* From libcudart's headers, which the build does not need. */
#define RUNTIME_SUCCESS 0
#define RUNTIME_INITIALIZATION_ERROR 3
struct extent {
    size_t width, height, depth;
};
struct pitched_pointer {
    void *address;
    size_t pitch, width, height;
};
struct channel_description {
    int x, y, z, w; /* bits */
    int kind;
};

struct call {
    enum vt_runtime_version version;
    enum vt_function function;
    uint16_t outer_label;
    uint64_t driver_events;
    uint8_t kind; /* enum vt_event_kind */
    uint8_t flags;
    uint64_t address;
    uint64_t bytes;
};

/* Set by the first allocation that the driver's wrappers did not see. From then on frees are recorded here,
 * before the call, when it is not yet known whether those wrappers will see them. */
static _Atomic bool driver_is_silent;

static int8_t current_device(enum vt_runtime_version version)
{
    int (*get_device)(int *device) =
        (int (*)(int *))vt_real_runtime_function(version, VT_FUNCTION_cudaGetDevice);
    int device;
    if (get_device == NULL || get_device(&device) != RUNTIME_SUCCESS || device < 0 ||
        device >= (int)VT_MAX_DEVICES)
        return -1;
    return (int8_t)device;
}

static void record_call(const struct call *call, uint8_t kind, uint64_t detail)
{
    int saved_errno;
    if (!vt_enter_event(&saved_errno))
        return;
    vt_record(
        &(struct vt_observation){.kind = kind,
                                 .layer = VT_LAYER_RUNTIME,
                                 .device_index = kind == VT_EVENT_ALLOC ? current_device(call->version) : -1,
                                 .flags = call->flags,
                                 .function = (uint16_t)call->function,
                                 .with_stack = kind != VT_EVENT_FREE,
                                 .address = kind == VT_EVENT_ALLOC_FAILED ? 0 : call->address,
                                 .bytes = call->bytes,
                                 .detail = detail});
    vt_leave(saved_errno);
}

static void begin_call(struct call *call)
{
    call->driver_events = vt_driver_events_of_thread();
    call->outer_label = vt_set_runtime_label((uint16_t)call->function);
    if (call->kind == VT_EVENT_FREE && call->address != 0 && vt_recording() &&
        atomic_load_explicit(&driver_is_silent, memory_order_relaxed))
        record_call(call, VT_EVENT_FREE, 0);
}

static void end_call(const struct call *call, int result)
{
    vt_set_runtime_label(call->outer_label);
    if (vt_driver_events_of_thread() != call->driver_events)
        return;
    if (call->kind == VT_EVENT_FREE) {
        if (result != RUNTIME_SUCCESS && call->address != 0 && vt_recording() &&
            atomic_load_explicit(&driver_is_silent, memory_order_relaxed))
            record_call(call, VT_EVENT_FREE_FAILED, 0);
    } else if (result != RUNTIME_SUCCESS) {
        if (vt_recording())
            record_call(call, VT_EVENT_ALLOC_FAILED, (uint64_t)result);
    } else if (call->address != 0) {
        atomic_store_explicit(&driver_is_silent, true, memory_order_relaxed);
        record_call(call, VT_EVENT_ALLOC, 0);
    }
}

#define UNPACK(...) __VA_ARGS__

/* The export for one release of libcudart. */
#define EXPORT(release, version_name, symbol, parameters, arguments)                                         \
    __attribute__((visibility("default"))) int vt_runtime_##symbol##_##release parameters;                   \
    int vt_runtime_##symbol##_##release parameters                                                           \
    {                                                                                                        \
        return call_##symbol(VT_RUNTIME_##release, UNPACK arguments);                                        \
    }                                                                                                        \
    __asm__(".symver vt_runtime_" #symbol "_" #release ", " #symbol "@" version_name);

/* For an allocation, `address_value` and `bytes_value` are read after a successful call, `asked_value` after
 * a failed one: it must not follow pointers. */
#define RUNTIME(symbol, event, flags_value, address_value, bytes_value, asked_value, parameters, arguments)  \
    static int call_##symbol(enum vt_runtime_version version, UNPACK parameters)                             \
    {                                                                                                        \
        int(*real) parameters = (int(*) parameters)vt_real_runtime_function(version, VT_FUNCTION_##symbol);  \
        if (real == NULL)                                                                                    \
            return RUNTIME_INITIALIZATION_ERROR;                                                             \
        struct call call = {                                                                                 \
            .version = version, .function = VT_FUNCTION_##symbol, .kind = (event), .flags = (flags_value)};  \
        if ((event) == VT_EVENT_FREE)                                                                        \
            call.address = (uintptr_t)(address_value);                                                       \
        begin_call(&call);                                                                                   \
        int result = real arguments;                                                                         \
        if ((event) == VT_EVENT_ALLOC && result == RUNTIME_SUCCESS) {                                        \
            call.address = (uintptr_t)(address_value);                                                       \
            call.bytes = (bytes_value);                                                                      \
        } else {                                                                                             \
            call.bytes = (asked_value);                                                                      \
        }                                                                                                    \
        end_call(&call, result);                                                                             \
        return result;                                                                                       \
    }                                                                                                        \
    VT_RUNTIME_RELEASES(EXPORT, symbol, parameters, arguments)

#define ALLOCATE_SHAPE(symbol, flags, address, bytes, asked, parameters, arguments)                          \
    RUNTIME(symbol, VT_EVENT_ALLOC, flags, address, bytes, asked, parameters, arguments)
#define ALLOCATE(symbol, flags, parameters, arguments)                                                       \
    RUNTIME(symbol, VT_EVENT_ALLOC, flags, *address, bytes, bytes, parameters, arguments)
#define FREE(symbol, flags, address, parameters, arguments)                                                  \
    RUNTIME(symbol, VT_EVENT_FREE, flags, address, 0, 0, parameters, arguments)

ALLOCATE(cudaMalloc, 0, (void **address, size_t bytes), (address, bytes))
ALLOCATE(cudaMallocManaged, VT_FLAG_MANAGED, (void **address, size_t bytes, unsigned flags),
         (address, bytes, flags))
ALLOCATE(cudaMallocHost, VT_FLAG_HOST, (void **address, size_t bytes), (address, bytes))
ALLOCATE(cudaHostAlloc, VT_FLAG_HOST, (void **address, size_t bytes, unsigned flags), (address, bytes, flags))

#define ALLOCATE_ASYNC(symbol)                                                                               \
    ALLOCATE(symbol, VT_FLAG_ASYNC, (void **address, size_t bytes, void *stream), (address, bytes, stream))
#define ALLOCATE_FROM_POOL_ASYNC(symbol)                                                                     \
    ALLOCATE(symbol, VT_FLAG_ASYNC, (void **address, size_t bytes, void *pool, void *stream),                \
             (address, bytes, pool, stream))
ALLOCATE_ASYNC(cudaMallocAsync)
ALLOCATE_ASYNC(cudaMallocAsync_ptsz)
ALLOCATE_FROM_POOL_ASYNC(cudaMallocFromPoolAsync)
ALLOCATE_FROM_POOL_ASYNC(cudaMallocFromPoolAsync_ptsz)

ALLOCATE_SHAPE(cudaHostRegister, VT_FLAG_HOST | VT_FLAG_REGISTERED, address, bytes, bytes,
               (void *address, size_t bytes, unsigned flags), (address, bytes, flags))
ALLOCATE_SHAPE(cudaMallocPitch, 0, *address, *pitch *height, width *height,
               (void **address, size_t *pitch, size_t width, size_t height), (address, pitch, width, height))
ALLOCATE_SHAPE(cudaMalloc3D, 0, pointer->address, pointer->pitch *extent.height *extent.depth,
               extent.width *extent.height *extent.depth,
               (struct pitched_pointer * pointer, struct extent extent), (pointer, extent))

static uint64_t array_bytes(const struct channel_description *channels, struct extent extent, unsigned levels)
{
    uint64_t texel_bits = (uint64_t)channels->x + channels->y + channels->z + channels->w, texels = 0;
    for (unsigned level = 0; level < levels && level < 64; level++) {
        size_t width = extent.width >> level, height = extent.height >> level, depth = extent.depth >> level;
        texels += (uint64_t)(width != 0 ? width : 1) * (height != 0 ? height : 1) * (depth != 0 ? depth : 1);
    }
    return texels * texel_bits / 8;
}

#define ALLOCATE_ARRAY(symbol, extent, levels, parameters, arguments)                                        \
    ALLOCATE_SHAPE(symbol, VT_FLAG_ESTIMATE, *array, array_bytes(channels, extent, levels), 0, parameters,   \
                   arguments)
#define PLANE ((struct extent){width, height, 0})
ALLOCATE_ARRAY(cudaMallocArray, PLANE, 1,
               (void **array, const struct channel_description *channels, size_t width, size_t height,
                unsigned flags),
               (array, channels, width, height, flags))
ALLOCATE_ARRAY(cudaMalloc3DArray, extent, 1,
               (void **array, const struct channel_description *channels, struct extent extent,
                unsigned flags),
               (array, channels, extent, flags))
ALLOCATE_ARRAY(cudaMallocMipmappedArray, extent, levels,
               (void **array, const struct channel_description *channels, struct extent extent,
                unsigned levels, unsigned flags),
               (array, channels, extent, levels, flags))

FREE(cudaFree, 0, address, (void *address), (address))
FREE(cudaFreeHost, VT_FLAG_HOST, address, (void *address), (address))
FREE(cudaHostUnregister, VT_FLAG_HOST | VT_FLAG_REGISTERED, address, (void *address), (address))
FREE(cudaFreeArray, VT_FLAG_ESTIMATE, array, (void *array), (array))
FREE(cudaFreeMipmappedArray, VT_FLAG_ESTIMATE, array, (void *array), (array))
FREE(cudaFreeAsync, VT_FLAG_ASYNC, address, (void *address, void *stream), (address, stream))
FREE(cudaFreeAsync_ptsz, VT_FLAG_ASYNC, address, (void *address, void *stream), (address, stream))
