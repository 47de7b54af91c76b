// Built by nvcc with its default, a static libcudart.
#include <cstdio>

__global__ void add_one(float *values)
{
    values[threadIdx.x] += 1;
}

extern "C" void plugin_run(void);

int main()
{
    float *values;
    if (cudaMalloc(&values, 4 << 20) != cudaSuccess)
        return 1;
    std::printf("alloc %p %d 0 -\n", static_cast<void *>(values), 4 << 20);
    add_one<<<1, 32>>>(values);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return 1;
    std::printf("free %p -\n", static_cast<void *>(values));
    if (cudaFree(values) != cudaSuccess)
        return 1;
    std::fflush(stdout);
    plugin_run();
    return 0;
}
