/* Records stacks that are new to the trace, and the code objects in them. Threads: any; no lock, no malloc.
 */
#ifndef VT_STACK_RECORDS_H
#define VT_STACK_RECORDS_H

#include "record/session.h"

/* A stack, known by its hash. Its frames are read only if the hash is new to the trace. */
struct vt_seen_stack {
    uint64_t hash;
    struct vt_python_stack python;
    bool with_python, with_native;
    uint32_t place_id;        /* places.h; 0 = none. For vt_record_stack, as is the next line */
    uint16_t function, label; /* of the hook, of the runtime call around it; 0 = none. For vt_record_stack */
};

/* Walks the stack again, this time storing its frames, records it under a new id, and publishes the id in
 * `entry`, its entry in session->stacks. Returns the id, or 0 if the record was dropped. */
uint32_t vt_record_stack(struct vt_session *session, struct vt_intern_entry *entry,
                         const struct vt_seen_stack *seen);

#endif
