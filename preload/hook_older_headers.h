/* Functions that cuda.h 12.x does not declare yet, so that the shim hooks the same names whatever header it
 * was built with. */
#ifndef VT_HOOK_OLDER_HEADERS_H
#define VT_HOOK_OLDER_HEADERS_H

#if CUDA_VERSION < 12050
typedef struct CUctxCreateParams_st CUctxCreateParams;
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                                CUdevice dev);
#endif
#if CUDA_VERSION < 12080
CUresult CUDAAPI cuStreamGetDevice(CUstream hStream, CUdevice *device);
CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream hStream, CUdevice *device);
#endif
#if CUDA_VERSION < 12040
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
CUresult CUDAAPI cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                                  unsigned int flags);
CUresult CUDAAPI cuGreenCtxDestroy(CUgreenCtx hCtx);
#endif

#endif
