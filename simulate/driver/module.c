/* Modules, libraries, kernels and their launches. Nothing is compiled and nothing runs: a module is a price
 * (VRAMTRACE_STANDIN_MODULE) and a list of the names asked of it. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>

enum named_kind { NAMED_FUNCTION, NAMED_VARIABLE };

struct CUfunc_st { /* also what a CUkernel points to */
    CUfunction next;
    CUmodule module;
    enum named_kind kind;
    bool loaded;         /* a function has been used */
    CUdeviceptr address; /* of a variable */
    size_t bytes;
    char name[];
};

struct CUmod_st { /* also what a CUlibrary points to */
    CUmodule next;
    CUcontext context; /* NULL for a library: it belongs to the process */
    CUdevice device;
    CUfunction named;
};

/* The real size is in the image, which is not read. Address space only, so large enough for any. */
#define VARIABLE_BYTES ((size_t)16 << 20)

static CUmodule modules;

static CUresult load(CUmodule *out, CUcontext owner)
{
    CUdevice device = standin_current_context()->device;
    if (!standin_take(device, USE_MODULE, standin_settings.module_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUmodule module = calloc(1, sizeof(*module));
    if (module == NULL)
        abort();
    module->context = owner;
    module->device = device;
    module->next = modules;
    modules = module;
    *out = module;
    return CUDA_SUCCESS;
}

static CUmodule *link_of(CUmodule module)
{
    CUmodule *link = &modules;
    while (*link != NULL && *link != module)
        link = &(*link)->next;
    return link;
}

static CUresult unload(CUmodule module)
{
    CUmodule *link = link_of(module);
    if (*link == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *link = module->next;
    while (module->named != NULL) {
        CUfunction named = module->named;
        module->named = named->next;
        struct standin_range *range =
            named->kind == NAMED_VARIABLE ? standin_range_at((uintptr_t)named->address, KIND_GLOBAL) : NULL;
        if (range != NULL) {
            standin_unmap((void *)range->start, range->bytes);
            standin_range_remove(range);
        }
        if (named->loaded)
            standin_give(module->device, USE_MODULE, standin_settings.kernel_bytes);
        free(named);
    }
    standin_give(module->device, USE_MODULE, standin_settings.module_bytes);
    free(module);
    return CUDA_SUCCESS;
}

void standin_free_modules_of_context(CUcontext context)
{
    for (CUmodule module = modules, next; module != NULL; module = next) {
        next = module->next;
        if (module->context == context)
            unload(module);
    }
}

/* Any name is found: the image is not read, so what it holds is not known. */
static CUfunction named_of(CUmodule module, const char *name, enum named_kind kind)
{
    for (CUfunction at = module->named; at != NULL; at = at->next) {
        if (at->kind == kind && strcmp(at->name, name) == 0)
            return at;
    }
    size_t length = strlen(name) + 1;
    CUfunction made = calloc(1, sizeof(*made) + length);
    if (made == NULL)
        abort();
    memcpy(made->name, name, length);
    made->module = module;
    made->kind = kind;
    if (kind == NAMED_VARIABLE) {
        void *start = standin_map(VARIABLE_BYTES, 0, false);
        made->address = (CUdeviceptr)(uintptr_t)start;
        made->bytes = VARIABLE_BYTES;
        standin_range_add((uintptr_t)start, VARIABLE_BYTES, KIND_GLOBAL, module->device);
    }
    made->next = module->named;
    module->named = made;
    return made;
}

/* At its first use, as with lazy loading. */
static CUresult load_function(CUfunction function)
{
    if (function->loaded)
        return CUDA_SUCCESS;
    if (!standin_take(function->module->device, USE_MODULE, standin_settings.kernel_bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    function->loaded = true;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CONTEXT_CALL();
    REQUIRE(module != NULL && image != NULL);
    return load(module, context);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    (void)numOptions;
    (void)options;
    (void)optionValues;
    CONTEXT_CALL();
    REQUIRE(module != NULL && image != NULL);
    return load(module, context);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    CONTEXT_CALL();
    REQUIRE(module != NULL && fatCubin != NULL);
    return load(module, context);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    CONTEXT_CALL();
    REQUIRE(module != NULL && fname != NULL);
    return load(module, context);
}

CUresult cuModuleUnload(CUmodule hmod)
{
    CONTEXT_CALL();
    return unload(hmod);
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    CONTEXT_CALL();
    REQUIRE(hfunc != NULL && name != NULL && *link_of(hmod) != NULL);
    *hfunc = named_of(hmod, name, NAMED_FUNCTION);
    return load_function(*hfunc);
}

static CUresult variable(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    REQUIRE(name != NULL && *link_of(module) != NULL);
    CUfunction named = named_of(module, name, NAMED_VARIABLE);
    if (address != NULL)
        *address = named->address;
    if (bytes != NULL)
        *bytes = named->bytes;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    CONTEXT_CALL();
    return variable(dptr, bytes, hmod, name);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    DRIVER_CALL();
    REQUIRE(mode != NULL);
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

/* ---- Libraries: modules of no context. */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    (void)jitOptions;
    (void)jitOptionsValues;
    (void)numJitOptions;
    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    CONTEXT_CALL();
    REQUIRE(library != NULL && code != NULL);
    return load((CUmodule *)library, NULL);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                               void **jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption *libraryOptions, void **libraryOptionValues,
                               unsigned int numLibraryOptions)
{
    CONTEXT_CALL();
    return cuLibraryLoadData(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                             libraryOptionValues, numLibraryOptions);
}

CUresult cuLibraryUnload(CUlibrary library)
{
    DRIVER_CALL();
    return unload((CUmodule)library);
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    CONTEXT_CALL();
    REQUIRE(pMod != NULL && *link_of((CUmodule)library) != NULL);
    *pMod = (CUmodule)library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    DRIVER_CALL();
    REQUIRE(pKernel != NULL && name != NULL && *link_of((CUmodule)library) != NULL);
    *pKernel = (CUkernel)named_of((CUmodule)library, name, NAMED_FUNCTION);
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    CONTEXT_CALL();
    return variable(dptr, bytes, (CUmodule)library, name);
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    DRIVER_CALL();
    return variable(dptr, bytes, (CUmodule)library, name);
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    CONTEXT_CALL();
    REQUIRE(pFunc != NULL && kernel != NULL);
    *pFunc = (CUfunction)kernel;
    return load_function(*pFunc);
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    DRIVER_CALL();
    REQUIRE(name != NULL && hfunc != NULL);
    *name = ((CUfunction)hfunc)->name;
    return CUDA_SUCCESS;
}

/* ---- Functions. */

CUresult cuFuncLoad(CUfunction function)
{
    CONTEXT_CALL();
    REQUIRE(function != NULL);
    return load_function(function);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    DRIVER_CALL();
    REQUIRE(state != NULL && function != NULL);
    *state = function->loaded ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    DRIVER_CALL();
    REQUIRE(name != NULL && hfunc != NULL);
    *name = hfunc->name;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    DRIVER_CALL();
    REQUIRE(hmod != NULL && hfunc != NULL);
    *hmod = hfunc->module;
    return CUDA_SUCCESS;
}

static CUresult function_attribute(int *value, CUfunction_attribute attribute)
{
    REQUIRE(value != NULL);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = 1024;
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 32;
        break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 80;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = 166912;
        break;
    default:
        *value = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    (void)hfunc;
    DRIVER_CALL();
    return function_attribute(pi, attrib);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    (void)kernel;
    (void)dev;
    DRIVER_CALL();
    return function_attribute(pi, attrib);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    (void)hfunc;
    (void)attrib;
    (void)value;
    DRIVER_CALL();
    return CUDA_SUCCESS;
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    (void)attrib;
    (void)val;
    (void)kernel;
    (void)dev;
    DRIVER_CALL();
    return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    (void)hfunc;
    (void)config;
    DRIVER_CALL();
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags)
{
    (void)func;
    (void)dynamicSMemSize;
    (void)flags;
    DRIVER_CALL();
    REQUIRE(numBlocks != NULL && blockSize > 0 && blockSize <= 1024);
    *numBlocks = 2048 / blockSize;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize)
{
    DRIVER_CALL();
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize, dynamicSMemSize,
                                                                0);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
                        unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
                        unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)
{
    (void)sharedMemBytes;
    (void)kernelParams;
    (void)extra;
    CONTEXT_CALL();
    REQUIRE(f != NULL && gridDimX != 0 && gridDimY != 0 && gridDimZ != 0);
    REQUIRE(blockDimX != 0 && blockDimY != 0 && blockDimZ != 0);
    standin_graph_launch(hStream);
    return load_function(f);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
    (void)kernelParams;
    (void)extra;
    CONTEXT_CALL();
    REQUIRE(config != NULL && f != NULL);
    standin_graph_launch(config->hStream);
    return load_function(f);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                                   unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    CONTEXT_CALL();
    return cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                          hStream, kernelParams, NULL);
}
