/* The few functions of NVIDIA's mathematics libraries whose answer PyTorch looks at. Compiled once per
 * library with STANDIN_<library> defined; everything else is made by library.py and returns 0. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(default)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

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
