/* cuGetProcAddress, and the texts of errors. The table of names and versions is made at build time from
 * cudaTypedefs.h (entry_points.py). */
#include "standin.h"
#include "lookup.h"

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

/* NVIDIA's own runtime, which some libraries have inside, looks up nearly every function, and then refuses
 * this driver. */
static void notice_runtime(void)
{
    enum { SURELY_A_RUNTIME = 300 };
    static unsigned lookups;
    if (__atomic_add_fetch(&lookups, 1, __ATOMIC_RELAXED) == SURELY_A_RUNTIME &&
        getenv("VRAMTRACE_SIMULATION") != NULL)
        fputs("vramtrace dryrun: a library of this program has NVIDIA's CUDA runtime inside (as CuPy and RMM "
              "have), "
              "which needs a real driver: what uses it cannot run here\n",
              stderr);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    COUNT_CALL();
    notice_runtime();
    return look_up(symbol, pfn, cudaVersion, flags, symbolStatus);
}

CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    COUNT_CALL();
    CUresult result = look_up(symbol, pfn, cudaVersion, flags, NULL);
    return result == CUDA_SUCCESS && *pfn == NULL ? CUDA_ERROR_NOT_FOUND : result;
}

CUresult cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId)
{
    COUNT_CALL();
    REQUIRE(ppExportTable != NULL && pExportTableId != NULL);
    return CUDA_ERROR_NOT_FOUND; /* NVIDIA's private tables are not ours to have */
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
