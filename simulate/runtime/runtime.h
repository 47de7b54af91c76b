/* The stand-in runtime's own state, shared by its files. It finds the driver as NVIDIA's does (dlopen,
 * cuGetProcAddress, base name and version) and links to nothing of it. */
#ifndef STANDIN_RUNTIME_H
#define STANDIN_RUNTIME_H

#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#ifndef STANDIN_RUNTIME_VERSION
#define STANDIN_RUNTIME_VERSION 13000
#endif

struct runtime_driver {
#define DRIVER(name, version) PFN_cu##name##_v##version name;
#define DRIVER_TYPED(name, version, type_version) PFN_cu##name##_v##type_version name;
#define PER_THREAD(name, version) PFN_cu##name##_v##version name, name##_ptsz;
#include "driver_functions.def"
    PFN_cuGetProcAddress_v12000 GetProcAddress;
};
extern struct runtime_driver runtime_driver;

/* The driver is found and initialized. */
cudaError_t runtime_begin(void);
/* And a context is current: this thread's device's primary one unless the program made another current. */
cudaError_t runtime_enter(void);
/* What a call returns is also what cudaGetLastError tells next. */
cudaError_t runtime_record(cudaError_t error);
int runtime_device(void); /* this thread's */

/* The driver's handle of a kernel known by its host function, loading its module if this is its first use. */
cudaError_t runtime_function(const void *host_function, CUfunction *function);

#define RECORD(result) return runtime_record((cudaError_t)(result))
#define RUNTIME_CALL()                                                                                       \
    do {                                                                                                     \
        cudaError_t entered_ = runtime_enter();                                                              \
        if (entered_ != cudaSuccess)                                                                         \
            return runtime_record(entered_);                                                                 \
    } while (0)
#define REQUIRE(condition)                                                                                   \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return runtime_record(cudaErrorInvalidValue);                                                    \
    } while (0)
#define ADDRESS(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

#endif
