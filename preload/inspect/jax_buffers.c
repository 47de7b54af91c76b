#include "inspect/jax_buffers.h"

__thread struct vt_jax_buffers *vt_jax_buffers;
