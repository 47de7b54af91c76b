/* Which buffers a JAX array consists of. The array keeps them in C++, where they cannot be read. So an
 * inspection asks the array a harmless question, and the hooks of JAX's plugin note here which buffers the
 * question reaches. */
#ifndef VT_JAX_BUFFERS_H
#define VT_JAX_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

enum { VT_JAX_BUFFERS_MAXIMUM = 1024 }; /* an array has one buffer per device */

struct vt_jax_buffers {
    size_t count;
    uint64_t handles[VT_JAX_BUFFERS_MAXIMUM]; /* of the buffers, as in observations (record/record.h) */
};

/* The calling thread's; NULL: no question is being asked. */
extern __thread struct vt_jax_buffers *vt_jax_buffers
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Only while a question is being asked. Further buffers than fit are left out. */
static inline void vt_jax_buffers_add(uint64_t handle)
{
    if (vt_jax_buffers->count < VT_JAX_BUFFERS_MAXIMUM)
        vt_jax_buffers->handles[vt_jax_buffers->count++] = handle;
}

#endif
