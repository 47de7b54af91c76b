/* A plugin that uses the libcudart it was linked to (RELEASE), and says which one answered. */
#include <stdint.h>
#include <stdio.h>
#include <stddef.h>

int cudaMalloc(void **address, size_t bytes);
int cudaFree(void *address);

void plugin_run(void);
void plugin_run(void)
{
    void *address = NULL;
    int failed = cudaMalloc(&address, (size_t)1 << 41);
    int result = cudaMalloc(&address, 4096);
    printf("release %d answered by %d, results %d %d\n", RELEASE, (int)((uintptr_t)address >> 32), failed,
           result);
    printf("alloc %p 4096 0\nfree %p\n", address, address);
    printf("freed %d, again %d\n", cudaFree(address), cudaFree((void *)1));
    fflush(stdout);
}
