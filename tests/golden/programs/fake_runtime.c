/* A libcudart that has no driver below: its memory is numbers that tell the release (RELEASE) that gave them.
 * It shows which library a call reached, and what is recorded when the driver's hooks see nothing. */
#include <stddef.h>
#include <stdint.h>

int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);
int cudaGetDevice(int *device);

static uintptr_t given;

int cudaMalloc(void **address, size_t bytes)
{
    if (bytes > (size_t)1 << 40)
        return 2;
    *address = (void *)(((uintptr_t)RELEASE << 32) + (++given << 12));
    return 0;
}

int cudaFree(void *address)
{
    return (uintptr_t)address >> 32 == RELEASE || address == NULL ? 0 : 1;
}

int cudaGetDevice(int *device)
{
    *device = RELEASE - 10;
    return 0;
}
