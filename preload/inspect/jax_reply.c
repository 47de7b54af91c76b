#include "inspect/jax_reply.h"

__thread struct vt_jax_reply *vt_jax_reply;
