/* Marks and ranges of NVTX, before the first CUDA call and after it. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <nvtx3/nvToolsExt.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
    CUcontext context;
    CUdeviceptr address;
    nvtxEventAttributes_t attributes = {0};
    nvtxDomainHandle_t domain = nvtxDomainCreateA("a domain");
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    nvtxMarkA("too early");
    printf("push %d\n", nvtxRangePushA("opened too early"));
    if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0 ||
        cuMemAlloc_v2(&address, 4096) != 0)
        return 1;
    nvtxMarkA("first mark");
    nvtxMarkW(L"wide \u00e9 \u20ac");
    nvtxMarkW((const wchar_t[]){'h', 0xd83d, 'a', 0xdfff, 'l', 0x1f600, 'f', 0});
    printf("push %d\n", nvtxRangePushA("outer"));
    printf("push %d\n", nvtxRangePushW(L"inner"));
    printf("pop %d\n", nvtxRangePop());
    printf("pop %d\n", nvtxRangePop());
    printf("pop %d\n", nvtxRangePop()); /* the one that was not recorded */
    printf("pop %d\n", nvtxRangePop());
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = "extended";
    nvtxMarkEx(&attributes);
    nvtxDomainMarkEx(domain, &attributes);
    attributes.message.ascii = "extended range";
    nvtxRangePushEx(&attributes);
    nvtxRangePop();
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    nvtxDomainRangePushEx(domain, &attributes);
    nvtxDomainRangePop(domain);
    if (getenv("NVTX_FORK") != NULL) { /* a worker that ends its parent's range, and uses no CUDA */
        nvtxRangePushA("parent's");
        pid_t child = fork();
        nvtxRangePop();
        if (child == 0)
            exit(0);
        waitpid(child, NULL, 0);
    }
    return 0;
}
