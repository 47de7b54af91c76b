/* TensorFlow's BFC allocator ("best fit with coalescing"), which cuts its tensors' blocks from a few large
 * regions. libtensorflow_framework exports its methods and puts them into vtables by name, so a preloaded
 * definition sees each block. (XLA's copy of it in JAX's plugin is hidden.)
 *
 * The same class serves page-locked and ordinary memory: only allocators of a device are recorded. */
#include <ctype.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"
#include "loader/elf_walk.h"
#include "hooks/observe.h"

/* Exported by us. */
#define ALLOCATE _ZN3tsl12BFCAllocator11AllocateRawEmmRKNS_20AllocationAttributesE
#define RELEASE _ZN3tsl12BFCAllocator13DeallocateRawEPv

/* Called by us: X(field, result, parameters, symbol). */
struct string { /* libstdc++'s; too large for registers, so C returns it in memory as C++ does */
    char *text;
    size_t bytes;
    char inside[16]; /* short text is stored here */
};
#define METHODS(X)                                                                                           \
    X(allocate, void *, (void *, size_t, size_t, const void *), VT_SYMBOL_NAME(ALLOCATE))                    \
    X(release, void, (void *, void *), VT_SYMBOL_NAME(RELEASE))                                              \
    X(block_bytes, size_t, (const void *, const void *), "_ZNK3tsl12BFCAllocator13AllocatedSizeEPKv")        \
    X(memory_type, int, (const void *), "_ZNK3tsl12BFCAllocator13GetMemoryTypeEv")                           \
    X(name, struct string, (void *), "_ZN3tsl12BFCAllocator4NameB5cxx11Ev")
#define X(field, result, parameters, symbol) typedef result field##_function parameters;
METHODS(X)
#undef X

enum { MEMORY_OF_A_DEVICE = 1 }; /* tsl::AllocatorMemoryType */

static struct {
#define X(field, result, parameters, symbol) _Atomic(field##_function *) field;
    METHODS(X)
#undef X
    _Atomic uint64_t unloads; /* count of unloaded libraries when these were found */
} bfc;

/* Looked up again after any library was unloaded: it may have been TensorFlow's, which may be elsewhere now.
 */
static void look_up(void)
{
    const uint64_t unloads = vt_elf_unloads_lately();
    if (atomic_load_explicit(&bfc.unloads, memory_order_acquire) == unloads && bfc.allocate)
        return;
#define X(field, result, parameters, symbol)                                                                 \
    atomic_store(&bfc.field, (field##_function *)vt_elf_next_definition(symbol));
    METHODS(X)
#undef X
    atomic_store_explicit(&bfc.unloads, unloads, memory_order_release);
}

/* From the allocator's name: "GPU_0_bfc". */
static int8_t device_of(void *allocator)
{
    int device = -1;
    if (!bfc.memory_type || !bfc.name || !bfc.block_bytes || bfc.memory_type(allocator) != MEMORY_OF_A_DEVICE)
        return -1;
    struct string name = bfc.name(allocator);
    const bool is_short = name.bytes < sizeof name.inside; /* a copy: its pointer may be to where it was */
    const char *text = is_short ? name.inside : name.text;
    if (name.bytes > 4 && memcmp(text, "GPU_", 4) == 0 && isdigit((unsigned char)text[4]))
        device = atoi(text + 4);
    if (!is_short)
        free(name.text);
    return device < (int)VT_MAX_DEVICES ? (int8_t)device : -1;
}

struct attributes { /* the first members of tsl::AllocationAttributes */
    bool retries;   /* waits for memory, and fails for good; if not set, the caller can do without */
};

static void record_oom(void *allocator, size_t bytes, const struct attributes *attributes)
{
    int8_t device_index;
    if (bytes == 0 || !attributes || !attributes->retries || (device_index = device_of(allocator)) < 0)
        return;
    vt_record(&(struct vt_observation){.kind = VT_EVENT_OOM,
                                       .layer = VT_LAYER_FRAMEWORK,
                                       .device_index = device_index,
                                       .with_stack = true,
                                       .uncounted = true,
                                       .bytes = bytes});
    vt_record_ask_inspection(VT_INSPECTION_OUT_OF_MEMORY);
}

__attribute__((visibility("default"))) allocate_function ALLOCATE;
void *ALLOCATE(void *allocator, size_t alignment, size_t bytes, const void *attributes)
{
    int saved_errno;
    int8_t device_index;
    look_up();
    void *address = bfc.allocate ? bfc.allocate(allocator, alignment, bytes, attributes) : NULL;
    if (!address && bfc.allocate && vt_enter_event(&saved_errno)) {
        record_oom(allocator, bytes, attributes);
        vt_leave(saved_errno);
    }
    if (address && vt_enter_event(&saved_errno)) {
        if ((device_index = device_of(allocator)) >= 0)
            vt_record_block(device_index, (uintptr_t)address, bfc.block_bytes(allocator, address), 0);
        vt_leave(saved_errno);
    }
    return address;
}

__attribute__((visibility("default"))) release_function RELEASE;
void RELEASE(void *allocator, void *address)
{
    vt_block_ends((uintptr_t)address, 0);
    look_up();
    if (bfc.release)
        bfc.release(allocator, address);
}
