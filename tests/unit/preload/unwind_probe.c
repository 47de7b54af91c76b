/* The walk of native stacks, as a library of its own: its own frames are the ones that a walk leaves out. */
#include "stacks/native.h"

#include <stddef.h>
#include <stdint.h>

#include "loader/fork_gate.h"
#include "stacks/python_layout.h"

__attribute__((visibility("default"))) size_t probe(uint64_t addresses[VT_NATIVE_DEPTH], int *truncated,
                                                    uint64_t *hash);
__attribute__((visibility("default"))) void probe_forget(void);

bool vt_python_loaded(void)
{
    return false;
}

static __attribute__((constructor)) void start(void)
{
    vt_native_start(true);
}

size_t probe(uint64_t addresses[VT_NATIVE_DEPTH], int *truncated, uint64_t *hash)
{
    static __thread struct vt_recent_walks recent;
    bool cut = false;
    size_t count = vt_native_walk(addresses, 0, &cut);
    *hash = vt_native_hash(&recent, 0);
    *truncated = cut;
    if (vt_native_hash(&recent, 0) != *hash || vt_native_hash(NULL, 0) != *hash)
        return 0; /* what is remembered is what is found anew */
    return count;
}

void probe_forget(void)
{
    vt_native_forget();
}
