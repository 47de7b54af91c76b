#include "guard.h"

#include "stack_bounds.h"

__thread struct vt_guard vt_guard __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Stacks grow down: the frame of a hook called inside another one lies below. This holds on the thread's own
 * stack only; a signal handler may run on another. */
bool vt_guard_abandoned(uintptr_t frame)
{
    if (vt_guard.frame == VT_GUARD_OWN_THREAD || frame < vt_guard.frame ||
        !vt_stack_bounds_of(vt_guard.frame).end_known || !vt_stack_bounds_of(frame).end_known)
        return false;
    const int state = vt_guard.cancel_state;
    vt_guard.frame = 0;
    pthread_setcancelstate(state, NULL);
    return true;
}
