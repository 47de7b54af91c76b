/* Finds the real functions in the libcuda and libcudart that the host has loaded; the recorder never loads
 * them. Threads: any; no lock of ours. */
#ifndef VT_LOOKUP_H
#define VT_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "functions.h"

/* libcudart's symbol versions, one for each major release, also listed in vramtrace.map; a process may have
 * several loaded. X(release, version, further arguments) */
#define VT_RUNTIME_RELEASES(X, ...)                                                                          \
    X(11, "libcudart.so.11.0", __VA_ARGS__)                                                                  \
    X(12, "libcudart.so.12", __VA_ARGS__)                                                                    \
    X(13, "libcudart.so.13", __VA_ARGS__)
enum vt_runtime_version {
#define X(release, version, unused) VT_RUNTIME_##release,
    VT_RUNTIME_RELEASES(X, )
#undef X
        VT_RUNTIME_VERSIONS
};

/* The host's own libcuda function, or NULL where no libcuda is loaded or it has no such function. */
void *vt_real_function(enum vt_function function);

/* The same; if there is none, the function that the host would have called without us: some programs define
 * functions with these names that load libcuda when first called. */
void *vt_function_to_call(enum vt_function function);

/* Like vt_real_function, for libcudart. */
void *vt_real_runtime_function(enum vt_runtime_version version, enum vt_function function);

/* Our wrapper of a VT_WRAPPED function; NULL for others. */
void *vt_wrapper(enum vt_function function);

/* The wrapper to return instead of `address`, which is libcuda's answer to `name` (a function's name without
 * its suffix). NULL if we do not wrap that function. */
void *vt_wrapper_of_address(const void *address, const char *name);

/* Pins the libraries found so far, so that our pointers stay valid. This takes the loader's lock and clears
 * dlerror, so only two callers may: the writer thread (at its start and at every poll, which retries
 * failures; cheap once done), and the dlsym wrapper, whose caller does both anyway. Until then each call
 * checks whether a library was unloaded, and if so searches again. */
void vt_lookup_pin(void);

#endif
