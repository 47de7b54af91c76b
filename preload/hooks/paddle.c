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
#define RECORD_EVENT _ZN6paddle8platform14RecordMemEventC1EPKvRKN3phi5PlaceEmNS4_18TracerMemEventTypeE

struct place { /* the first members of phi::Place */
    int8_t device_index;
    int8_t kind;
};
enum { PLACE_GPU = 2 };    /* phi::AllocationType */
enum { ALLOCATED, FREED }; /* phi::TracerMemEventType */

typedef void event_function(void *self, const void *address, const struct place *place, size_t bytes,
                            int what);

static void record_block(const void *address, const struct place *place, size_t bytes, int what)
{
    int saved_errno;
    if (place->kind != PLACE_GPU || !address || place->device_index < 0 ||
        place->device_index >= (int)VT_MAX_DEVICES)
        return;
    if (what == FREED)
        vt_block_ends((uintptr_t)address, 0);
    if (what != ALLOCATED || !vt_enter_event(&saved_errno))
        return;
    vt_record_block(place->device_index, (uintptr_t)address, bytes, 0);
    vt_leave(saved_errno);
}

__attribute__((visibility("default"))) event_function RECORD_EVENT;
void RECORD_EVENT(void *self, const void *address, const struct place *place, size_t bytes, int what)
{
    record_block(address, place, bytes, what);
    VT_ELF_NEXT(RECORD_EVENT);
    if (real)
        real(self, address, place, bytes, what);
}
