/* What an array consists of, heard rather than read: its library keeps that in C++. While an inspection asks
 * the array a harmless question, the hooks of the library's plugin tell which buffers the question goes on
 * to. */
#ifndef VT_HEARD_H
#define VT_HEARD_H

#include <stddef.h>
#include <stdint.h>

enum { VT_HEARD_MAXIMUM = 1024 }; /* an array has one buffer on each device of the process */

struct vt_heard {
    size_t count;
    uint64_t handles[VT_HEARD_MAXIMUM]; /* as in observations (record/record.h) */
};

/* Of the calling thread; NULL: it does not listen. */
extern __thread struct vt_heard *vt_hearing __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Only while the thread listens. What is too much is left out. */
static inline void vt_hear(uint64_t handle)
{
    if (vt_hearing->count < VT_HEARD_MAXIMUM)
        vt_hearing->handles[vt_hearing->count++] = handle;
}

#endif
