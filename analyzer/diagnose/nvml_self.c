#include "diagnose/nvml_self.h"

#include "base/index.h"
#include "diagnose/driver_overhead.h"
#include "report/gpu_readings.h"
#include "report/moments.h"
#include "trace/trace.h"

#include <string.h>

static const struct vt_trace_card_process *own_of(const struct vt_gpu_reading *reading)
{
    return reading->use && reading->use->flags & VT_CARD_PROCESSES &&
                   reading->use->own < reading->use->process_count
               ? &reading->use->processes[reading->use->own]
               : NULL;
}

/* That process can be this one. */
static bool can_be_own(const struct vt_gpu_reading *reading, const struct vt_trace_card_process *own)
{
    return own->bytes >= reading->own_bytes - reading->spare_bytes && own->bytes <= reading->used_bytes;
}

/* In a container another process may have the number that is taken for ours. */
struct vt_nvml_self vt_nvml_self_find(const struct vt_gpu_readings *readings)
{
    struct vt_nvml_self use = {false, false};
    size_t right = 0, wrong = 0;

    for (size_t i = 0; i < readings->count; i++) {
        const struct vt_trace_card_process *own = own_of(&readings->items[i]);

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
           !(reading->use->flags & (VT_CARD_NESTED | VT_CARD_PROCESSES_CUT));
}

const char *vt_nvml_self_processes(const struct vt_nvml_self *use, const struct vt_gpu_reading *reading)
{
    const struct vt_trace_card_process *own = own_of(reading);

    if (!reading->use)
        return VT_PROCESSES_NO_NVML;
    if (!(reading->use->flags & VT_CARD_PROCESSES))
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
    const struct vt_trace_card_process *own = own_of(reading);

    return own ? own->bytes : 0;
}

/* ---- From change to change ---- */

struct walk {
    const struct vt_trace *trace;
    const struct vt_gpu_readings *readings;
    const struct vt_silent_events *events;
    struct vt_context_levels *levels;
    size_t capacity, next_event, next_era;
    uint64_t bytes; /* of the latest level */
};

static void add_level(struct walk *walk, uint64_t t_ns, uint64_t bytes)
{
    const struct vt_level level = {t_ns, bytes};

    walk->bytes = bytes;
    VT_APPEND(walk->levels->items, walk->levels->count, walk->capacity, level);
}

/* All contexts of the device ended before `last_event`: each time they did. */
static void end_eras(struct walk *walk, uint32_t last_event)
{
    for (; walk->next_era < walk->readings->era_count &&
           walk->readings->era_starts[walk->next_era] <= last_event;
         walk->next_era++) {
        const uint32_t event = walk->readings->era_starts[walk->next_era];

        while (walk->next_event < walk->events->count && walk->events->items[walk->next_event] <= event)
            walk->next_event++;
        if (walk->bytes)
            add_level(walk, vt_event_time(walk->trace, event), 0);
    }
}

/* More came with the first call since the reading before that makes or loads something, less with the last
 * one; without one it is as the reading says. */
static void read_one(struct walk *walk, int device_index, const struct vt_gpu_reading *reading)
{
    const uint64_t used_bytes = vt_nvml_self_bytes(reading),
                   bytes = used_bytes > reading->own_bytes ? used_bytes - reading->own_bytes : 0;
    uint64_t first_ns = reading->begin_ns, last_ns = first_ns;
    bool any = false;

    end_eras(walk, reading->event_index);
    for (; walk->next_event < walk->events->count &&
           walk->events->items[walk->next_event] <= reading->event_index;
         walk->next_event++) {
        const uint32_t event = walk->events->items[walk->next_event];
        const int device = walk->trace->events[event].device_index;

        if (device >= 0 && device != device_index)
            continue;
        last_ns = vt_event_time(walk->trace, event);
        first_ns = any ? first_ns : last_ns;
        any = true;
    }
    /* what pools returned is not part of the context */
    if (bytes > walk->bytes || (bytes < walk->bytes && !reading->spare_bytes))
        add_level(walk, bytes > walk->bytes ? first_ns : last_ns, bytes);
}

struct vt_context_levels vt_context_levels_find(const struct vt_report *report, int device_index,
                                                const struct vt_gpu_readings *readings,
                                                const struct vt_silent_events *events)
{
    struct vt_context_levels levels = {0};
    const struct vt_nvml_self own = vt_nvml_self_find(readings);
    struct walk walk = {
        .trace = report->trace, .readings = readings, .events = events, .levels = &levels, .next_era = 1};

    for (size_t i = 0; i < readings->count; i++)
        if (readings->items[i].steady && vt_nvml_self_told(&own, &readings->items[i]))
            read_one(&walk, device_index, &readings->items[i]);
    if (levels.count)
        end_eras(&walk, UINT32_MAX);
    return levels;
}
