/* Asks libcudart for driver functions, as libraries do that are not linked to libcuda. */
#include <cuda_runtime_api.h>

#include "way.h"

#include <string.h>

static void *find(const char *name, unsigned version)
{
    char base[64];
    const char *suffix = strstr(name, "_v2");
    size_t length = suffix != NULL ? (size_t)(suffix - name) : strlen(name);
    enum cudaDriverEntryPointQueryResult status;
    void *function = NULL;
    memcpy(base, name, length);
    base[length] = '\0';
    check(cudaGetDriverEntryPointByVersion(base, &function, version, cudaEnableDefault, &status), name);
    return function;
}

int main(void)
{
    struct way way;
#define FILL(member, name, version) way.member = (__typeof__(way.member))find(name, version);
    WAY_FUNCTIONS(FILL)
    begin(&way);
    allocate_and_free(&way, 3);
    return 0;
}
