/* A host that is linked with libcuda: no dlopen, no dlsym. It counts nothing itself but what it says in its
 * book. */
#include <cuda.h>
#include <stdlib.h>

#include "host.h"

#undef cuMemAlloc
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes);

static int linked_alloc(uint64_t *address, size_t bytes)
{
    CUdeviceptr made = 0;
    CUresult result = cuMemAlloc_v2(&made, bytes);
    *address = made;
    return (int)result;
}

int main(int count, char **arguments)
{
    int pairs = count > 1 ? atoi(arguments[1]) : 100;
    host_begin();
    for (int i = 0; i < pairs; i++)
        host_free(host_alloc_by(linked_alloc, 4096));
    host_say("%d pairs\n", pairs);
    return 0;
}
