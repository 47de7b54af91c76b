/* What an array consists of, heard rather than read: its library keeps that in C++. While an inspection asks
 * the array a harmless question, the hooks of the library's plugin tell which buffers the question goes on
 * to. */
#ifndef VT_JAX_REPLY_H
#define VT_JAX_REPLY_H

#include <stddef.h>
#include <stdint.h>

enum { VT_JAX_REPLY_MAXIMUM = 1024 }; /* an array has one buffer on each device of the process */

struct vt_jax_reply {
    size_t count;
    uint64_t handles[VT_JAX_REPLY_MAXIMUM]; /* as in observations (record/record.h) */
};

/* Of the calling thread; NULL: it does not listen. */
extern __thread struct vt_jax_reply *vt_jax_reply
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Only while the thread listens. What is too much is left out. */
static inline void vt_jax_reply_add(uint64_t handle)
{
    if (vt_jax_reply->count < VT_JAX_REPLY_MAXIMUM)
        vt_jax_reply->handles[vt_jax_reply->count++] = handle;
}

#endif
