/* What the runtime's headers take from NVIDIA's crt/host_defines.h, for a C compiler. Only on the path where
 * the headers come without a crt folder, as in PyPI's nvidia-cuda-runtime. */
#ifndef STANDIN_HOST_DEFINES_H
#define STANDIN_HOST_DEFINES_H
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDACB
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __forceinline__ __inline__ __attribute__((always_inline))
#endif
