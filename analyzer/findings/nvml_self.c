#include "findings/nvml_self.h"

#include "report/gpu_readings.h"
#include "report/findings.h"
#include "trace/trace.h"

#include <string.h>

static const struct vt_trace_gpu_process *own_of(const struct vt_gpu_reading *reading)
{
    return reading->use && reading->use->flags & VT_GPU_PROCESSES &&
                   reading->use->own < reading->use->process_count
               ? &reading->use->processes[reading->use->own]
               : NULL;
}

/* That process can be this one. */
static bool can_be_own(const struct vt_gpu_reading *reading, const struct vt_trace_gpu_process *own)
{
    return own->bytes >= reading->own_bytes - reading->spare_bytes && own->bytes <= reading->used_bytes;
}

/* In a container another process may have the number that is taken for ours. */
struct vt_nvml_self vt_nvml_self_find(const struct vt_gpu_readings *readings)
{
    struct vt_nvml_self use = {false, false};
    size_t right = 0, wrong = 0;

    for (size_t i = 0; i < readings->count; i++) {
        const struct vt_trace_gpu_process *own = own_of(&readings->items[i]);

        use.listed |= own && own->bytes != UINT64_MAX;
        if (own && readings->items[i].steady && own->bytes != UINT64_MAX)
            *(can_be_own(&readings->items[i], own) ? &right : &wrong) += 1;
    }
    use.trusted = right >= wrong;
    return use;
}

/* It has no memory and no context then, and NVML lists it where it has: it is not in the list because it has
 * nothing there. */
static bool has_nothing(const struct vt_nvml_self *own, const struct vt_gpu_reading *reading)
{
    return own->trusted && own->listed && !reading->own_bytes && !reading->context_bytes &&
           !(reading->use->flags & (VT_GPU_NESTED | VT_GPU_PROCESSES_CUT));
}

const char *vt_nvml_self_processes(const struct vt_nvml_self *use, const struct vt_gpu_reading *reading)
{
    const struct vt_trace_gpu_process *own = own_of(reading);

    if (!reading->use)
        return VT_PROCESSES_NO_NVML;
    if (!(reading->use->flags & VT_GPU_PROCESSES))
        return VT_PROCESSES_NOT_LISTED;
    if (!own)
        return has_nothing(use, reading) ? VT_PROCESSES_TOLD : VT_PROCESSES_WITHOUT_THIS;
    if (own->bytes == UINT64_MAX)
        return VT_PROCESSES_WITHOUT_BYTES;
    return use->trusted && can_be_own(reading, own) ? VT_PROCESSES_TOLD : VT_PROCESSES_DO_NOT_FIT;
}

bool vt_nvml_self_told(const struct vt_nvml_self *own, const struct vt_gpu_reading *reading)
{
    return !strcmp(vt_nvml_self_processes(own, reading), VT_PROCESSES_TOLD);
}

uint64_t vt_nvml_self_bytes(const struct vt_gpu_reading *reading)
{
    const struct vt_trace_gpu_process *own = own_of(reading);

    return own ? own->bytes : 0;
}

uint64_t vt_nvml_unlisted_bytes(const struct vt_gpu_reading *reading)
{
    uint64_t left = reading->used_bytes;

    for (uint32_t i = 0; reading->use && i < reading->use->process_count; i++) {
        if (reading->use->processes[i].bytes > left)
            return 0;
        left -= reading->use->processes[i].bytes;
    }
    return reading->use && !(reading->use->flags & VT_GPU_PROCESSES_CUT) ? left : 0;
}
