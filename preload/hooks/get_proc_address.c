/* cuGetProcAddress, the driver's own dlsym. The real one answers, then our wrapper replaces the address that
 * it returned, so no table of versions and suffixes is needed. */
#include "hooks/driver.h"

static void replace_by_wrapper(void **function, const char *asked)
{
    void *wrapper = vt_wrapper_of_address(*function, asked);
    if (wrapper != NULL)
        *function = wrapper;
}

VT_HOOK(cuGetProcAddress, (const char *symbol, void **function, int cuda_version, cuuint64_t flags))
{
    VT_REAL(cuGetProcAddress);
    CUresult result = real(symbol, function, cuda_version, flags);
    if (result == CUDA_SUCCESS && function != NULL)
        replace_by_wrapper(function, symbol);
    return result;
}

VT_HOOK(cuGetProcAddress_v2, (const char *symbol, void **function, int cuda_version, cuuint64_t flags,
                              CUdriverProcAddressQueryResult *status))
{
    VT_REAL(cuGetProcAddress_v2);
    CUresult result = real(symbol, function, cuda_version, flags, status);
    if (result == CUDA_SUCCESS && function != NULL)
        replace_by_wrapper(function, symbol);
    return result;
}
