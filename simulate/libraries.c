/* The few functions of NVIDIA's mathematics libraries whose answer PyTorch looks at. Compiled once per
 * library with STANDIN_<library> defined; everything else is made by library.py and returns 0. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

#ifdef STANDIN_libcudnn
/* Programs compare it with the one that they were built with: VRAMTRACE_STANDIN_CUDNN=9.26.0, else what PyTorch 2.11 has. */
static int version_part(int part)
{
    const char *text = getenv("VRAMTRACE_STANDIN_CUDNN");
    int parts[3] = {9, 19, 0};
    if (text != NULL)
        sscanf(text, "%d.%d.%d", &parts[0], &parts[1], &parts[2]);
    return part >= 0 && part < 3 ? parts[part] : 0;
}
size_t cudnnGetVersion(void)
{
    return (size_t)(version_part(0) * 10000 + version_part(1) * 100 + version_part(2));
}
int cudnnGetProperty(int part, int *value) /* XLA compares, too */
{
    return give_number(value, version_part(part));
}
/* One heuristic result, and plans without workspace. */
int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t requested, int64_t *count,
                             void *values)
{
    enum { BOOLEAN = 2, INT64 = 3, DOUBLE = 5, VOID_POINTER = 6, DESCRIPTOR = 15 };
    (void)descriptor;
    (void)attribute;
    if (count)
        *count = 1;
    if (values && requested > 0 && type != DESCRIPTOR)
        memset(values, 0,
               type == INT64 || type == DOUBLE || type == VOID_POINTER ? 8
               : type == BOOLEAN                                       ? 1
                                                                       : 4);
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
