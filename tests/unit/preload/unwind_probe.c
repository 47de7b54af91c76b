/* The walk of native stacks, as a library of its own: its own frames are the ones that a walk leaves out. */
#include "stacks/native.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "guard.h"
#include "loader/fork_gate.h"
#include "stacks/python_layout.h"
#include "stacks/unwind_tables.h"

__attribute__((visibility("default"))) size_t probe(uint64_t addresses[VT_NATIVE_DEPTH], int *truncated,
                                                    uint64_t *hash);
__attribute__((visibility("default"))) void probe_forget(void);

bool vt_python_loaded(void)
{
    return false;
}

#if defined VT_UNWINDER_LIBUNWIND
static void *answer(void *unused)
{
    (void)unused;
    vt_guard.frame = VT_GUARD_OWN_THREAD;
    for (;; usleep(1000))
        vt_unwind_answer();
    return NULL;
}

/* With libunwind: nothing is known at first, so a walk ends at our own frames, and says so. */
static void begin_with_libunwind(void)
{
    uint64_t addresses[VT_NATIVE_DEPTH];
    bool cut = false;
    pthread_t thread;
    if (vt_native_walk(addresses, 0, &cut) != 0 || !cut || pthread_create(&thread, NULL, answer, NULL))
        abort();
}
#endif

static __attribute__((constructor)) void start(void)
{
    vt_guard.frame = VT_GUARD_OWN_THREAD; /* as the writer's thread does it */
    vt_native_start(true);
    vt_guard.frame = 0;
#if defined VT_UNWINDER_LIBUNWIND
    begin_with_libunwind();
#endif
}

size_t probe(uint64_t addresses[VT_NATIVE_DEPTH], int *truncated, uint64_t *hash)
{
    static __thread struct vt_recent_walks recent;
    for (;;) {
        const uint64_t unanswered = vt_unwind_unanswered();
        bool cut = false;
        size_t count = vt_native_walk(addresses, 0, &cut);
        *hash = vt_native_hash(&recent, 0);
        *truncated = cut;
        if (vt_native_hash(&recent, 0) != *hash || vt_native_hash(NULL, 0) != *hash)
            count = 0; /* what is remembered is what is found anew */
        if (vt_unwind_unanswered() == unanswered)
            return count;
        usleep(1000); /* libunwind warms up */
    }
}

void probe_forget(void)
{
    vt_native_forget();
}
