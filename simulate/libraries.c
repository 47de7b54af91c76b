/* The few functions of NVIDIA's mathematics libraries whose answer PyTorch looks at. Compiled once per
 * library with STANDIN_<library> defined; everything else is made by library.py and returns 0. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static inline int give_number(int *out, int value)
{
    *out = value;
    return 0;
}

#ifdef STANDIN_libcublas
int cublasGetVersion_v2(void *cublas, int *version)
{
    (void)cublas;
    return give_number(version, 130100);
}
#endif

#ifdef STANDIN_libcublasLt
struct heuristic_result { /* cublasLtMatmulHeuristicResult_t */
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int state;
    float waves;
    int reserved[4];
};

/* PyTorch takes "no result" for an error. */
int cublasLtMatmulAlgoGetHeuristic(void *lt, void *operation, void *a, void *b, void *c, void *d,
                                   void *preference, int requested, struct heuristic_result *results,
                                   int *returned)
{
    (void)lt;
    (void)operation;
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    (void)preference;
    if (requested > 0)
        memset(results, 0, sizeof(*results));
    *returned = requested > 0;
    return 0;
}
#endif

#ifdef STANDIN_libnvrtc
int nvrtcVersion(int *major, int *minor)
{
    return give_number(major, 13) + give_number(minor, 0);
}
#endif

#ifdef STANDIN_libcupti
int cuptiGetVersion(uint32_t *version)
{
    *version = 130000;
    return 0;
}
#endif
