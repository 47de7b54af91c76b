/* What hooks record with. The first event of a process starts its session (record/session.h) and writer
 * thread.
 *
 * Call these between vt_enter and vt_leave (guard.h). Threads: any; no lock is held, and nothing here calls
 * into the host. Errors: none are returned; what cannot be recorded is counted in the trace. */
#ifndef VT_OBSERVE_H
#define VT_OBSERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"

/* Records an event with its stack. */
void vt_record(const struct vt_observation *seen);

/* A block of a framework without a counter of its own (vt_observation.uncounted) was made. */
static inline void vt_record_block(int8_t device_index, uint64_t address, uint64_t bytes, uint64_t sequence)
{
    vt_record(&(struct vt_observation){.kind = VT_EVENT_ALLOC,
                                       .layer = VT_LAYER_FRAMEWORK,
                                       .device_index = device_index,
                                       .with_stack = true,
                                       .uncounted = true,
                                       .address = address,
                                       .bytes = bytes,
                                       .sequence = sequence});
}

/* Such a block ends. It is identified by its address, or by its handle; the other one is 0. */
static inline void vt_record_block_end(uint64_t address, uint64_t handle)
{
    vt_record(&(struct vt_observation){.kind = VT_EVENT_FREE,
                                       .layer = VT_LAYER_FRAMEWORK,
                                       .device_index = -1,
                                       .uncounted = true,
                                       .handle = handle,
                                       .address = address});
}

/* The same for callers outside of the guard. A free starts no trace. */
static inline void vt_block_ends(uint64_t address, uint64_t handle)
{
    int saved_errno;
    if ((address == 0 && handle == 0) || !vt_recording() || !vt_enter_event(&saved_errno))
        return;
    vt_record_block_end(address, handle);
    vt_leave(saved_errno);
}

/* Whether the trace has a description of this device; true also if it can have none. */
bool vt_record_device_known(int device_index);

/* Records the description of a device, once per process. `uuid`: 16 bytes, NULL = not known. */
void vt_record_device(int device_index, const char *name, uint64_t total_bytes, const void *uuid);

#endif
