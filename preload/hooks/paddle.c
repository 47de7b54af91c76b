/* PaddlePaddle's allocators. The outermost one (StatAllocator), which keeps Paddle's own counters, reports
 * each block to its profiler by making an object on the stack. The object's constructor is exported and
 * called through the PLT, the same in 2.6 and 3.3, so a preloaded definition sees each block.
 *
 * It also reports page-locked and ordinary memory, and what the allocators take from the driver: only blocks
 * on a GPU are recorded. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "guard.h"
#include "loader/elf_walk.h"
#include "hooks/observe.h"

/* Exported by us: paddle::platform::RecordMemEvent::RecordMemEvent */
#define TELL _ZN6paddle8platform14RecordMemEventC1EPKvRKN3phi5PlaceEmNS4_18TracerMemEventTypeE

struct place { /* the first members of phi::Place */
    int8_t device_index;
    int8_t kind;
};
enum { PLACE_GPU = 2 };            /* phi::AllocationType */
enum { TOLD_ALLOCATE, TOLD_FREE }; /* phi::TracerMemEventType */

typedef void tell_function(void *self, const void *address, const struct place *place, size_t bytes,
                           int what);

static void record_block(const void *address, const struct place *place, size_t bytes, int what)
{
    int saved_errno;
    const bool made = what == TOLD_ALLOCATE;
    if (place->kind != PLACE_GPU || (!made && what != TOLD_FREE) || !address || (!made && !vt_recording()) ||
        place->device_index < 0 || place->device_index >= (int)VT_MAX_DEVICES ||
        !vt_enter_event(&saved_errno))
        return;
    vt_record(&(struct vt_observation){.kind = made ? VT_EVENT_ALLOC : VT_EVENT_FREE,
                                       .layer = VT_LAYER_FRAMEWORK,
                                       .device_index = made ? place->device_index : -1,
                                       .with_stack = made,
                                       .uncounted = true,
                                       .address = (uintptr_t)address,
                                       .bytes = made ? bytes : 0});
    vt_leave(saved_errno);
}

__attribute__((visibility("default"))) tell_function TELL;
void TELL(void *self, const void *address, const struct place *place, size_t bytes, int what)
{
    static struct vt_elf_next next;
    record_block(address, place, bytes, what);
    tell_function *real = (tell_function *)vt_elf_next_function(&next, VT_SYMBOL_NAME(TELL));
    if (real)
        real(self, address, place, bytes, what);
}
