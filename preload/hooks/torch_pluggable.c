/* torch.cuda.memory.CUDAPluggableAllocator: the program's own functions (RMM's among them) in place of
 * PyTorch's caching allocator. PyTorch's profiler does not see their blocks, and its history does not
 * support them. But libtorch_cuda calls its own class through the PLT and the vtable, by name, so a
 * preloaded definition sees all blocks.
 *
 * A MemPool may get its segments from such an allocator while that is not the current one: those are not
 * blocks. */
#include <stdatomic.h>
#include <stddef.h>

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

/* If the current allocator is not known, nothing counts as a block. */
static bool is_current(const void *allocator)
{
    void *_Atomic *known = atomic_load_explicit(&current, memory_order_acquire);
    if (!known) {
        known = vt_elf_symbol_in(CURRENT_LIBRARY, CURRENT);
        atomic_store_explicit(&current, known, memory_order_release);
    }
    return known && atomic_load_explicit(known, memory_order_acquire) == allocator;
}

static void *allocate_block(allocate_function *real, void *allocator, size_t bytes, int device, void *stream)
{
    int saved_errno;
    void *address = real ? real(allocator, bytes, device, stream) : NULL;
    if (address && vt_enter_event(&saved_errno)) {
        if (is_current(allocator))
            vt_record_block((int8_t)device, (uintptr_t)address, bytes, vt_current_sequence());
        vt_leave(saved_errno);
    }
    return address;
}

#define EXPORT_ALLOCATE(symbol)                                                                              \
    __attribute__((visibility("default"))) allocate_function symbol;                                         \
    void *symbol(void *allocator, size_t bytes, int device, void *stream)                                    \
    {                                                                                                        \
        VT_ELF_NEXT(symbol);                                                                                 \
        return allocate_block(real, allocator, bytes, device, stream);                                       \
    }
EXPORT_ALLOCATE(ALLOCATE)
EXPORT_ALLOCATE(OLD_ALLOCATE)

__attribute__((visibility("default"))) release_function RELEASE;
void RELEASE(void *allocator, void *address)
{
    vt_block_ends((uintptr_t)address, 0);
    VT_ELF_NEXT(RELEASE);
    if (real)
        real(allocator, address);
}
