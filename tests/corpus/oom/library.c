/* Takes memory as a library of its own would: with cudaMalloc, from the runtime that is loaded already. */
#include <dlfcn.h>
#include <stddef.h>

int take(size_t bytes)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW), *address;
    int (*allocate)(void **, size_t) = (int (*)(void **, size_t))dlsym(runtime, "cudaMalloc");
    int (*forget_error)(void) = (int (*)(void))dlsym(runtime, "cudaGetLastError");
    int result = allocate && forget_error ? allocate(&address, bytes) : -1;

    if (result > 0)
        forget_error(); /* PyTorch would take it for its own */
    return result;
}
