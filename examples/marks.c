/* A C program that uses CUDA without a framework and puts marks into its trace.
 *
 *     cc -Iinclude examples/marks.c -o marks -lcudart && LD_PRELOAD=libvramtrace.so ./marks */
#include <stddef.h>
#include <stdio.h>

#include <cuda_runtime_api.h>
#include <vramtrace/api.h>

enum { LAYERS = 4 };

static const size_t layer_bytes = (size_t)64 << 20;

static int fill(void *layers[LAYERS])
{
    for (int i = 0; i < LAYERS; i++)
        if (cudaMalloc(&layers[i], layer_bytes * (size_t)(i + 1)) != cudaSuccess)
            return -1;
    return 0;
}

int main(void)
{
    void *layers[LAYERS] = {NULL}, *scratch = NULL;
    if (fill(layers)) {
        fprintf(stderr, "marks: out of device memory\n");
        return 1;
    }
    VRAMTRACE_MARK("loaded");
    if (cudaMalloc(&scratch, 256u << 20) == cudaSuccess) {
        VRAMTRACE_MARK("scratch");
        cudaFree(scratch);
    }
    for (int i = 0; i < LAYERS; i++)
        cudaFree(layers[i]);
    VRAMTRACE_MARK("done");
    return 0;
}
