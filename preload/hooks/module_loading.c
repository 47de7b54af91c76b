/* Modules, libraries and kernels: their memory is the difference of the device's used memory across the
 * call. Kernels are loaded when first needed (CUDA's lazy loading), perhaps only at their first launch. So
 * first uses are bracketed; a later launch costs one table lookup. If another thread allocates in between,
 * the difference could be either's, and is not recorded. */
#include "hash.h"
#include "hooks/wrap.h"
#include "hooks/first_uses.h"

#include <stdatomic.h>

VT_HOOK_BRACKETED(cuModuleLoad, (CUmodule * module, const char *file), (module, file))
VT_HOOK_BRACKETED(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))
VT_HOOK_BRACKETED(cuModuleLoadDataEx,
                  (CUmodule * module, const void *image, unsigned int count, CUjit_option *options,
                   void **values),
                  (module, image, count, options, values))
VT_HOOK_BRACKETED(cuModuleLoadFatBinary, (CUmodule * module, const void *image), (module, image))
VT_HOOK_BRACKETED(cuLibraryLoadData,
                  (CUlibrary * library, const void *code, CUjit_option *jit_options, void **jit_values,
                   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
                  (library, code, jit_options, jit_values, jit_count, options, values, count))
VT_HOOK_BRACKETED(cuLibraryLoadFromFile,
                  (CUlibrary * library, const char *file, CUjit_option *jit_options, void **jit_values,
                   unsigned int jit_count, CUlibraryOption *options, void **values, unsigned int count),
                  (library, file, jit_options, jit_values, jit_count, options, values, count))
/* A lazily loaded library is loaded here. */
VT_HOOK_BRACKETED(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (module, library))
VT_HOOK_BRACKETED(cuLibraryGetGlobal,
                  (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
                  (address, bytes, library, name))
VT_HOOK_BRACKETED(cuLibraryGetManaged,
                  (CUdeviceptr * address, size_t *bytes, CUlibrary library, const char *name),
                  (address, bytes, library, name))

/* Handles of unloaded code may be reused, so after an unload everything is a first use again. */
static _Atomic uint64_t unloads;

#define UNLOAD(symbol, parameters, arguments)                                                                \
    VT_HOOK_BRACKETED_IF(symbol, true, atomic_fetch_add_explicit(&unloads, 1, memory_order_relaxed),         \
                         parameters, arguments)
UNLOAD(cuModuleUnload, (CUmodule module), (module))
UNLOAD(cuLibraryUnload, (CUlibrary library), (library))

static bool is_first_use(uint64_t what)
{
    return vt_is_first_use(what + VT_HASH_3 * atomic_load_explicit(&unloads, memory_order_relaxed) +
                           VT_HASH_4 * vt_context_of_several());
}

static bool is_first_name(const void *module, const char *name)
{
    uint64_t hash = (uintptr_t)module;
    for (; name != NULL && *name != '\0'; name++)
        hash = vt_hash_add(hash, (unsigned char)*name);
    return is_first_use(hash);
}

#define FIRST_USE(symbol, condition, parameters, arguments)                                                  \
    VT_HOOK_BRACKETED_IF(symbol, condition, (void)0, parameters, arguments)
FIRST_USE(cuModuleGetFunction, is_first_name(module, name),
          (CUfunction * function, CUmodule module, const char *name), (function, module, name))
FIRST_USE(cuKernelGetFunction, is_first_use((uintptr_t)kernel), (CUfunction * function, CUkernel kernel),
          (function, kernel))
FIRST_USE(cuFuncLoad, is_first_use((uintptr_t)function), (CUfunction function), (function))

#define LAUNCH(symbol)                                                                                       \
    FIRST_USE(symbol, is_first_use((uintptr_t)function),                                                     \
              (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,           \
               unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,  \
               CUstream stream, void **arguments, void **extra),                                             \
              (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments, \
               extra))
LAUNCH(cuLaunchKernel)
LAUNCH(cuLaunchKernel_ptsz)

#define LAUNCH_BY_CONFIGURATION(symbol)                                                                      \
    FIRST_USE(symbol, is_first_use((uintptr_t)function),                                                     \
              (const CUlaunchConfig *configuration, CUfunction function, void **arguments, void **extra),    \
              (configuration, function, arguments, extra))
LAUNCH_BY_CONFIGURATION(cuLaunchKernelEx)
LAUNCH_BY_CONFIGURATION(cuLaunchKernelEx_ptsz)

#define LAUNCH_TOGETHER(symbol)                                                                              \
    FIRST_USE(                                                                                               \
        symbol, is_first_use((uintptr_t)function),                                                           \
        (CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,                 \
         unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared_bytes,        \
         CUstream stream, void **arguments),                                                                 \
        (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments))
LAUNCH_TOGETHER(cuLaunchCooperativeKernel)
LAUNCH_TOGETHER(cuLaunchCooperativeKernel_ptsz)
