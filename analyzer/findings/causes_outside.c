/* What fills the GPU beside the program's own tensors: other processes, libraries with pools of their own,
 * memory that the driver's pools or a framework keep unused. */
#include "findings/causes_outside.h"

#include "attribute/attribute.h"
#include "base/format.h"
#include "findings/causes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Other processes, as NVML listed them: the largest, how many, and their bytes. */
struct processes {
    const struct vt_gpu_row *largest; /* NULL = none is listed with its bytes */
    size_t count;
    uint64_t bytes;
};

static struct processes list_processes(const struct vt_device_report *device)
{
    const struct vt_gpu_table *table = device->card.present ? &device->card : &device->last_card;
    struct processes found = {0};
    for (size_t i = 0; i < table->row_count; i++) {
        const struct vt_gpu_row *row = &table->rows[i];
        if (strcmp(row->kind, "process") != 0 || !row->known || row->bytes <= 0)
            continue;
        found.count++;
        found.bytes += (uint64_t)row->bytes;
        found.largest = !found.largest || row->bytes > found.largest->bytes ? row : found.largest;
    }
    return found;
}

/* No more than other processes are known to hold, nor than was in use beside this one. */
void vt_cause_other_process(struct vt_cause_search *search)
{
    const struct processes found = list_processes(search->shortage->device);
    const uint64_t beside = search->refusal->other_bytes;
    char most[48] = "", size[24];
    if (!found.largest) {
        struct vt_cause *cause = vt_cause_add(search, VT_CAUSE_OTHER_PROCESS, beside, 0,
                                              "memory of other processes, or memory that was not recorded");
        if (cause)
            cause->remedy = "Check with nvidia-smi what else uses this GPU.";
        return;
    }
    if (found.count > 1)
        snprintf(most, sizeof most, ", the largest of %zu, %s", found.count,
                 vt_format_bytes((uint64_t)found.largest->bytes, size));
    vt_cause_add(search, VT_CAUSE_OTHER_PROCESS, found.bytes < beside ? found.bytes : beside, 0,
                 "memory of other processes: %" PRIu32 " (%.120s%s)", found.largest->pid,
                 found.largest->command ? found.largest->command : "its command is not known", most);
}

/* What is no framework's block nor filled with blocks, where the framework has blocks; not what is known to
 * be a library's workspace. */
void vt_cause_other_library(struct vt_cause_search *search)
{
    uint64_t bytes = 0, largest = 0;
    uint32_t stack_id = 0, count = 0;
    bool has_blocks = false;
    for (size_t i = 0; i < search->there.count; i++) {
        const struct vt_allocation *block = &search->replay->allocations[search->there.items[i]];
        const uint8_t category = vt_label_of(search->attribution, block)->category;
        has_blocks |= block->kind == VT_ALLOCATION_BLOCK;
        if (block->kind == VT_ALLOCATION_BLOCK || vt_is_container(block) ||
            !(vt_cause_is_passing(category) || category == VT_CATEGORY_UNKNOWN))
            continue;
        count++;
        bytes += block->bytes;
        stack_id = block->bytes > largest ? block->stack_id : stack_id;
        largest = block->bytes > largest ? block->bytes : largest;
    }
    if (search->refusal->of_framework && has_blocks)
        vt_cause_add(search, VT_CAUSE_OTHER_LIBRARY, bytes, stack_id,
                     "memory that other code of this process allocated from the driver itself, in %" PRIu32
                     " allocation%s",
                     count, count == 1 ? "" : "s");
}

/* What the driver's own pools have and nothing uses. */
static uint64_t idle_in_pools(const struct vt_cause_search *search)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < search->replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &search->replay->allocations[i];
        if (allocation->device_index == search->refusal->device_index &&
            (allocation->kind == VT_ALLOCATION_POOL || allocation->kind == VT_ALLOCATION_POOLED) &&
            vt_alive_at(allocation, search->refusal->event_index))
            bytes += vt_cached_change(allocation);
    }
    return bytes > 0 ? (uint64_t)bytes : 0;
}

/* A framework empties its cache before it gives up; nobody does for code that asks the driver. */
void vt_cause_idle_pool(struct vt_cause_search *search)
{
    const uint64_t cached = search->refusal->categories[VT_CATEGORY_CACHED], idle = idle_in_pools(search);
    if (search->refusal->of_framework)
        return;
    if (idle * 2 >= cached) {
        vt_cause_add(search, VT_CAUSE_IDLE_POOL, idle < cached ? idle : cached, 0,
                     "unused memory that the driver's memory pools keep");
    } else if (search->shortage->device->cache_release) {
        struct vt_cause *cause = vt_cause_add(search, VT_CAUSE_IDLE_POOL, cached - idle, 0,
                                              "memory that the framework has reserved and does not use");
        if (cause)
            cause->remedy = "Empty the framework's cache before this request, or set a limit for it.";
    }
}
