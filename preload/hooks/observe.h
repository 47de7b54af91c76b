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

/* Whether the trace has a description of this device; true also if it can have none. */
bool vt_record_device_known(int device_index);

/* Records the description of a device, once per process. `uuid`: 16 bytes, NULL = not known. */
void vt_record_device(int device_index, const char *name, uint64_t total_bytes, const void *uuid);

#endif
