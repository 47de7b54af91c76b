/* cuGetProcAddress, and the texts of errors. The table of names and versions is made at build time from
 * cudaTypedefs.h (entry_points.py). */
#include "standin.h"
#include "lookup.h"
#include "../lacks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct standin_entry *best_of(const char *name, int version, bool per_thread, bool *known)
{
    const struct standin_entry *best = NULL;
    for (const struct standin_entry *entry = standin_entries; entry->name != NULL; entry++) {
        if (entry->per_thread != per_thread || strcmp(entry->name, name) != 0)
            continue;
        *known = true;
        if (entry->version <= version && (best == NULL || entry->version > best->version))
            best = entry;
    }
    return best;
}

static CUresult look_up(const char *name, void **function, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    CUdriverProcAddressQueryResult unused;
    status = status != NULL ? status : &unused;
    REQUIRE(name != NULL && function != NULL && flags <= 2);
    *function = NULL;
    bool known = false;
    const struct standin_entry *entry = NULL;
    if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        entry = best_of(name, version, true, &known);
    if (entry == NULL)
        entry = best_of(name, version, false, &known);
    if (entry != NULL)
        *function = entry->function;
    *status = entry != NULL ? CU_GET_PROC_ADDRESS_SUCCESS
              : known       ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    COUNT_CALL();
    return look_up(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    COUNT_CALL();
    CUresult result = look_up(symbol, pfn, cudaVersion, flags, NULL);
    return result == CUDA_SUCCESS && *pfn == NULL ? CUDA_ERROR_NOT_FOUND : result;
}

/* Asks for NVIDIA's private tables, which are not ours to have: NVIDIA's own runtime, which some libraries
 * have inside. Without them it refuses this driver. */
CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    static bool told;
    Dl_info asks;
    COUNT_CALL();
    REQUIRE(ppExportTable != NULL && pExportTableId != NULL);
    if (standin_in_dryrun && dladdr(__builtin_return_address(0), &asks) != 0 &&
        !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) {
        const char *slash = strrchr(asks.dli_fname, '/');
        fprintf(stderr,
                "vramtrace dryrun: %s has NVIDIA's CUDA runtime inside, which needs a real driver, and finds "
                "no GPU here. Take a build that loads libcudart.so, or record it on a GPU: vramtrace run "
                "COMMAND\n",
                slash != NULL ? slash + 1 : asks.dli_fname);
    }
    return CUDA_ERROR_NOT_FOUND;
}

static const struct {
    CUresult error;
    const char *name, *text;
} errors[] = {
#define ERROR(error, text)                                                                                   \
    {                                                                                                        \
        error, #error, text                                                                                  \
    }
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_UNSUPPORTED_LIMIT, "limit is not supported on this architecture"),
    ERROR(CUDA_ERROR_OPERATING_SYSTEM, "OS call failed or operation not supported on this OS"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
          "part or all of the requested memory range is already mapped"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};

static CUresult text_of(CUresult error, const char **out, bool name)
{
    REQUIRE(out != NULL);
    *out = NULL;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        if (errors[i].error == error)
            *out = name ? errors[i].name : errors[i].text;
    }
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    COUNT_CALL();
    return text_of(error, pStr, true);
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    COUNT_CALL();
    return text_of(error, pStr, false);
}
