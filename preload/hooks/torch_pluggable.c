/* torch.cuda.memory.CUDAPluggableAllocator: the program's own functions (RMM's among them) in place of
 * PyTorch's caching allocator. PyTorch's profiler does not see their blocks, and its history does not
 * support them. But libtorch_cuda calls its own class through the PLT and the vtable, by name, so a
 * preloaded definition sees all blocks.
 *
 * A MemPool may get its segments from such an allocator while that is not the current one: those are not
 * blocks. */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "guard.h"
#include "loader/elf_walk.h"
#include "hooks/observe.h"

#define CLASS(rest) _ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator##rest
/* Before PyTorch 2.1 the device was an int. */
#define ALLOCATE CLASS(6mallocEmaP11CUstream_st)
#define OLD_ALLOCATE CLASS(6mallocEmiP11CUstream_st)
#define RELEASE CLASS(10raw_deleteEPv)

#define CURRENT_LIBRARY "libc10_cuda.so"
#define CURRENT "_ZN3c104cuda20CUDACachingAllocator9allocatorE" /* std::atomic<CUDAAllocator *> */

typedef void *allocate_function(void *allocator, size_t bytes, int device, void *stream);
typedef void release_function(void *allocator, void *address);

static _Atomic(void *_Atomic *) current;

static bool find_current(const struct vt_elf *object, void *found)
{
    if (strcmp(object->soname, CURRENT_LIBRARY) != 0)
        return false;
    *(void **)found = vt_elf_symbol(object, CURRENT, NULL);
    return true;
}

/* If the current allocator is not known, nothing counts as a block. */
static bool is_current(const void *allocator)
{
    void *_Atomic *known = atomic_load_explicit(&current, memory_order_relaxed);
    if (!known) {
        void *found = NULL;
        vt_elf_find(find_current, &found);
        atomic_store_explicit(&current, known = found, memory_order_relaxed);
    }
    return known && atomic_load_explicit(known, memory_order_relaxed) == allocator;
}

static void *allocate(allocate_function *real, void *allocator, size_t bytes, int device, void *stream)
{
    int saved_errno;
    void *address = real ? real(allocator, bytes, device, stream) : NULL;
    if (address && vt_enter_event(&saved_errno)) {
        if (is_current(allocator))
            vt_record(&(struct vt_observation){.kind = VT_EVENT_ALLOC,
                                               .layer = VT_LAYER_FRAMEWORK,
                                               .device_index = (int8_t)device,
                                               .with_stack = true,
                                               .uncounted = true,
                                               .address = (uintptr_t)address,
                                               .bytes = bytes,
                                               .sequence = vt_current_sequence()});
        vt_leave(saved_errno);
    }
    return address;
}

#define EXPORT_ALLOCATE(symbol)                                                                              \
    __attribute__((visibility("default"))) allocate_function symbol;                                         \
    void *symbol(void *allocator, size_t bytes, int device, void *stream)                                    \
    {                                                                                                        \
        static struct vt_elf_next next;                                                                      \
        return allocate((allocate_function *)vt_elf_next_function(&next, VT_SYMBOL_NAME(symbol)), allocator, \
                        bytes, device, stream);                                                              \
    }
EXPORT_ALLOCATE(ALLOCATE)
EXPORT_ALLOCATE(OLD_ALLOCATE)

__attribute__((visibility("default"))) release_function RELEASE;
void RELEASE(void *allocator, void *address)
{
    static struct vt_elf_next next;
    int saved_errno;
    if (address && vt_recording() && vt_enter_event(&saved_errno)) {
        vt_record(&(struct vt_observation){.kind = VT_EVENT_FREE,
                                           .layer = VT_LAYER_FRAMEWORK,
                                           .device_index = -1,
                                           .uncounted = true,
                                           .address = (uintptr_t)address});
        vt_leave(saved_errno);
    }
    release_function *real = (release_function *)vt_elf_next_function(&next, VT_SYMBOL_NAME(RELEASE));
    if (real)
        real(allocator, address);
}
