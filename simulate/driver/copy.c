/* Copies and fills, on memory that the host can reach. Of large ones only the begin is done: values hardly
 * matter, and touching gigabytes of NORESERVE memory would make it real. */
#include "standin.h"
#include "truth.h"

#include <string.h>

#define BEGIN_BYTES ((size_t)64 << 10)

static size_t limited(size_t bytes)
{
    return bytes <= standin_settings.copy_limit_bytes || bytes < BEGIN_BYTES ? bytes : BEGIN_BYTES;
}

static _Thread_local uint64_t answer;
static _Thread_local unsigned answers_left;

void standin_answer(uint64_t value, unsigned count)
{
    answer = value;
    answers_left = count;
}

unsigned standin_answers_left(void)
{
    return answers_left;
}

static CUresult copy(uintptr_t target, uintptr_t source, size_t bytes)
{
    REQUIRE(bytes == 0 || (target != 0 && source != 0));
    if (answers_left != 0 && bytes != 0 && bytes <= sizeof(answer)) {
        answers_left--;
        source = (uintptr_t)&answer;
    }
    memmove((void *)target, (const void *)source, limited(bytes));
    return CUDA_SUCCESS;
}

#define COPY(name, target_type, target, source_type, source)                                                 \
    CUresult name(target_type target, source_type source, size_t ByteCount)                                  \
    {                                                                                                        \
        CONTEXT_CALL();                                                                                      \
        return copy((uintptr_t)target, (uintptr_t)source, ByteCount);                                        \
    }
#define COPY_ASYNC(name, target_type, target, source_type, source)                                           \
    CUresult name(target_type target, source_type source, size_t ByteCount, CUstream hStream)                \
    {                                                                                                        \
        CONTEXT_CALL();                                                                                      \
        return standin_capturing(hStream) != NULL ? CUDA_SUCCESS                                             \
                                                  : copy((uintptr_t)target, (uintptr_t)source, ByteCount);   \
    }

COPY(cuMemcpy, CUdeviceptr, dst, CUdeviceptr, src)
COPY(cuMemcpyHtoD_v2, CUdeviceptr, dstDevice, const void *, srcHost)
COPY(cuMemcpyDtoH_v2, void *, dstHost, CUdeviceptr, srcDevice)
COPY(cuMemcpyDtoD_v2, CUdeviceptr, dstDevice, CUdeviceptr, srcDevice)
COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, dst, CUdeviceptr, src)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, dstDevice, const void *, srcHost)
COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, dstHost, CUdeviceptr, srcDevice)
COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, dstDevice, CUdeviceptr, srcDevice)

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount)
{
    (void)dstContext;
    (void)srcContext;
    CONTEXT_CALL();
    return copy((uintptr_t)dstDevice, (uintptr_t)srcDevice, ByteCount);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    (void)dstContext;
    (void)srcContext;
    (void)hStream;
    CONTEXT_CALL();
    return copy((uintptr_t)dstDevice, (uintptr_t)srcDevice, ByteCount);
}

/* ---- In two dimensions, between addresses; arrays hold nothing, so copies with them move nothing. */

static uintptr_t start_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t x_bytes, size_t y,
                          size_t pitch)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return 0;
    uintptr_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
    return base + y * pitch + x_bytes;
}

static CUresult copy_rows(const CUDA_MEMCPY2D *copied)
{
    REQUIRE(copied != NULL);
    uintptr_t source = start_of(copied->srcMemoryType, copied->srcHost, copied->srcDevice,
                                copied->srcXInBytes, copied->srcY, copied->srcPitch);
    uintptr_t target = start_of(copied->dstMemoryType, copied->dstHost, copied->dstDevice,
                                copied->dstXInBytes, copied->dstY, copied->dstPitch);
    if (source == 0 || target == 0)
        return CUDA_SUCCESS;
    size_t left = standin_settings.copy_limit_bytes;
    for (size_t row = 0; row < copied->Height && left >= copied->WidthInBytes; row++) {
        memmove((void *)(target + row * copied->dstPitch), (const void *)(source + row * copied->srcPitch),
                copied->WidthInBytes);
        left -= copied->WidthInBytes;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    CONTEXT_CALL();
    return copy_rows(pCopy);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    CONTEXT_CALL();
    return copy_rows(pCopy);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    (void)hStream;
    CONTEXT_CALL();
    return copy_rows(pCopy);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    CONTEXT_CALL();
    REQUIRE(pCopy != NULL);
    return CUDA_SUCCESS; /* nothing here needs its result */
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    (void)hStream;
    CONTEXT_CALL();
    REQUIRE(pCopy != NULL);
    return CUDA_SUCCESS;
}

/* ---- Fills. */

/* In one range, or in mappings that adjoin, as those of a segment that grows. */
static bool is_known(uintptr_t address, uintptr_t end)
{
    const struct standin_range *range = standin_range_find(address);
    while (range != NULL && range->kind == KIND_MAPPED && range->start + range->bytes < end)
        range = standin_range_find(range->start + range->bytes);
    return range != NULL && range->start + range->bytes >= end;
}

static CUresult fill(CUdeviceptr address, const void *value, size_t value_bytes, size_t count)
{
    if (count == 0)
        return CUDA_SUCCESS;
    REQUIRE(is_known((uintptr_t)address, (uintptr_t)address + count * value_bytes));
    size_t bytes = limited(count * value_bytes);
    if (value_bytes == 1) {
        memset((void *)(uintptr_t)address, *(const unsigned char *)value, bytes);
        return CUDA_SUCCESS;
    }
    for (size_t at = 0; at + value_bytes <= bytes; at += value_bytes)
        memcpy((void *)(uintptr_t)(address + at), value, value_bytes);
    return CUDA_SUCCESS;
}

#define FILL(name, type)                                                                                     \
    CUresult name##_v2(CUdeviceptr dstDevice, type value, size_t N)                                          \
    {                                                                                                        \
        CONTEXT_CALL();                                                                                      \
        return fill(dstDevice, &value, sizeof(value), N);                                                    \
    }                                                                                                        \
    CUresult name##Async(CUdeviceptr dstDevice, type value, size_t N, CUstream hStream)                      \
    {                                                                                                        \
        CONTEXT_CALL();                                                                                      \
        return standin_capturing(hStream) != NULL ? CUDA_SUCCESS                                             \
                                                  : fill(dstDevice, &value, sizeof(value), N);               \
    }

FILL(cuMemsetD8, unsigned char)
FILL(cuMemsetD16, unsigned short)
FILL(cuMemsetD32, unsigned int)

static CUresult fill_rows(CUdeviceptr address, size_t pitch, const void *value, size_t value_bytes,
                          size_t width, size_t height)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t row = 0; row < height && result == CUDA_SUCCESS; row++)
        result = fill(address + row * pitch, value, value_bytes, width);
    return result;
}

#define FILL_2D(name, type)                                                                                  \
    CUresult name##_v2(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height)      \
    {                                                                                                        \
        CONTEXT_CALL();                                                                                      \
        return fill_rows(dstDevice, dstPitch, &value, sizeof(value), Width, Height);                         \
    }                                                                                                        \
    CUresult name##Async(CUdeviceptr dstDevice, size_t dstPitch, type value, size_t Width, size_t Height,    \
                         CUstream hStream)                                                                   \
    {                                                                                                        \
        (void)hStream;                                                                                       \
        CONTEXT_CALL();                                                                                      \
        return fill_rows(dstDevice, dstPitch, &value, sizeof(value), Width, Height);                         \
    }

FILL_2D(cuMemsetD2D8, unsigned char)
FILL_2D(cuMemsetD2D16, unsigned short)
FILL_2D(cuMemsetD2D32, unsigned int)
