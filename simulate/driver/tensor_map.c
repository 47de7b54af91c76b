/* Descriptors of tensors, which kernels copy by: zeros, since no kernel runs. */
#include "standin.h"

#include <string.h>

static CUresult encode(CUtensorMap *map)
{
    REQUIRE(map != NULL);
    memset(map, 0, sizeof *map);
    return CUDA_SUCCESS;
}

#define TENSOR                                                                                               \
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress,  \
        const cuuint64_t *globalDim, const cuuint64_t *globalStrides
#define LAYOUT CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill
#define ENCODER(name, ...)                                                                                   \
    CUresult name(TENSOR, __VA_ARGS__, LAYOUT)                                                               \
    {                                                                                                        \
        DRIVER_CALL();                                                                                       \
        return encode(tensorMap);                                                                            \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"
ENCODER(cuTensorMapEncodeTiled, const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
        CUtensorMapInterleave interleave)
ENCODER(cuTensorMapEncodeIm2col, const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
        cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides,
        CUtensorMapInterleave interleave)

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress)
{
    DRIVER_CALL();
    REQUIRE(tensorMap != NULL && globalAddress != NULL);
    return CUDA_SUCCESS;
}
