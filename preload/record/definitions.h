/* What the writer adds to the ring's definitions: the process, names of threads, and for each new stack the
 * symbols and modules of its addresses and the names of its functions. Threads: the writer's. */
#ifndef VT_DEFINITIONS_H
#define VT_DEFINITIONS_H

#include "record/chunk.h"
#include "record/session.h"

struct vt_defined; /* what has been defined already */
struct vt_defined *vt_defined_make(void);
void vt_define_process(const struct vt_defined *seen, struct vt_buffer *definitions);
/* At the end: the process again, if it has given itself another title. */
void vt_define_title(const struct vt_defined *seen, struct vt_buffer *definitions);
void vt_define_launch(const struct vt_options *options, struct vt_buffer *definitions);
void vt_define_thread(const struct vt_session *session, uint64_t thread_id, struct vt_buffer *definitions);
void vt_define_for_stack(struct vt_defined *seen, const struct vt_stack *stack,
                         struct vt_buffer *definitions);

#endif
