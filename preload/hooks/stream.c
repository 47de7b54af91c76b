/* Streams: the driver takes 2 MiB of an H100 for each of the first ones, and tells of it nowhere. */
#include "hooks/wrap.h"

VT_HOOK_BRACKETED(cuStreamCreate, (CUstream * stream, unsigned int flags), (stream, flags))
VT_HOOK_BRACKETED(cuStreamCreateWithPriority, (CUstream * stream, unsigned int flags, int priority),
                  (stream, flags, priority))
VT_HOOK_BRACKETED(cuGreenCtxStreamCreate,
                  (CUstream * stream, CUgreenCtx context, unsigned int flags, int priority),
                  (stream, context, flags, priority))
VT_HOOK_BRACKETED(cuStreamDestroy, (CUstream stream), (stream))
VT_HOOK_BRACKETED(cuStreamDestroy_v2, (CUstream stream), (stream))
