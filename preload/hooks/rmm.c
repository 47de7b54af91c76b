/* RMM's device_buffer, which holds the arrays of cuDF and cuML and Python's DeviceBuffer, and through RMM's
 * allocators those of CuPy and Numba. It allocates and frees in two functions that librmm exports and calls
 * through the PLT, so a preloaded definition sees each block, whatever pool it comes from.
 *
 * A resource may also return page-locked or ordinary memory: only what the driver says is on a device is
 * recorded. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "guard.h"
#include "hooks/driver.h"
#include "loader/elf_walk.h"
#include "hooks/observe.h"

/* The namespace of the class, by release: X(name, as written in symbols). From 26.8 on every release has its
 * own, every second month. Future ones are only trusted if the object looks as it should. */
#define RELEASES(X)                                                                                          \
    X(to_26_6, 3rmm)                                                                                         \
    X(of_26_8, 3rmm9_RMM_26_8)                                                                               \
    X(of_26_10, 3rmm10_RMM_26_10)                                                                            \
    X(of_26_12, 3rmm10_RMM_26_12)                                                                            \
    X(of_27_2, 3rmm9_RMM_27_2)                                                                               \
    X(of_27_4, 3rmm9_RMM_27_4)                                                                               \
    X(of_27_6, 3rmm9_RMM_27_6)                                                                               \
    X(of_27_8, 3rmm9_RMM_27_8)                                                                               \
    X(of_27_10, 3rmm10_RMM_27_10)                                                                            \
    X(of_27_12, 3rmm10_RMM_27_12)
#define ALLOCATE(space) _ZN##space##13device_buffer14allocate_asyncEm
#define RELEASE(space) _ZN##space##13device_buffer16deallocate_asyncEv

struct device_buffer { /* its first members, from 25.8 to 26.10; set when allocate_async returns */
    CUdeviceptr address;
    size_t bytes;
};
typedef void allocate_function(struct device_buffer *buffer, size_t bytes);
typedef void release_function(struct device_buffer *buffer);

static void record_allocated(const struct device_buffer *buffer, size_t bytes)
{
    int saved_errno;
    if (buffer->bytes != bytes || buffer->address == 0 || !vt_enter_event(&saved_errno))
        return;
    const int8_t device_index = vt_device_of(buffer->address);
    if (device_index >= 0)
        vt_record_block(device_index, buffer->address, bytes, 0);
    vt_leave(saved_errno);
}

#define EXPORT(name, space)                                                                                  \
    __attribute__((visibility("default"))) allocate_function ALLOCATE(space);                                \
    void ALLOCATE(space)(struct device_buffer * buffer, size_t bytes)                                        \
    {                                                                                                        \
        VT_ELF_NEXT(ALLOCATE(space));                                                                        \
        if (!real)                                                                                           \
            return;                                                                                          \
        real(buffer, bytes); /* it may throw */                                                              \
        record_allocated(buffer, bytes);                                                                     \
    }                                                                                                        \
    __attribute__((visibility("default"))) release_function RELEASE(space);                                  \
    void RELEASE(space)(struct device_buffer * buffer)                                                       \
    {                                                                                                        \
        vt_block_ends(buffer->address, 0);                                                                   \
        VT_ELF_NEXT(RELEASE(space));                                                                         \
        if (real)                                                                                            \
            real(buffer);                                                                                    \
    }
RELEASES(EXPORT)
