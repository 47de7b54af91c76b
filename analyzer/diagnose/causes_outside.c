/* What fills the GPU beside the program's own tensors: other processes, libraries with pools of their own,
 * memory that the driver's pools or a framework keep unused. */
#include "diagnose/causes_outside.h"

#include "attribute/attribute.h"
#include "base/format.h"
#include "diagnose/causes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The process that holds most, as NVML listed them, and how many more there are. */
static const struct vt_gpu_row *largest_process(const struct vt_device_report *device, size_t *more)
{
    const struct vt_gpu_table *table = device->card.present ? &device->card : &device->last_card;
    const struct vt_gpu_row *largest = NULL;
    size_t count = 0;
    for (size_t i = 0; i < table->row_count; i++) {
        const struct vt_gpu_row *row = &table->rows[i];
        if (strcmp(row->kind, "process") != 0 || !row->known)
            continue;
        count++;
        largest = !largest || row->bytes > largest->bytes ? row : largest;
    }
    *more = count > 0 ? count - 1 : 0;
    return largest;
}

void vt_cause_other_process(struct vt_cause_search *search)
{
    size_t more;
    const struct vt_gpu_row *largest = largest_process(search->shortage->device, &more);
    const uint64_t bytes = search->refusal->other_bytes;
    char most[48] = "", size[24];
    if (more > 0 && largest->bytes > 0)
        snprintf(most, sizeof most, ", the largest of %zu, %s", more + 1,
                 vt_format_bytes((uint64_t)largest->bytes, size));
    if (largest)
        vt_cause_add(search, VT_CAUSE_OTHER_PROCESS, bytes, 0,
                     "memory of other processes: %" PRIu32 " (%.120s%s)", largest->pid,
                     largest->command ? largest->command : "its command is not known", most);
    else
        vt_cause_add(search, VT_CAUSE_OTHER_PROCESS, bytes, 0,
                     "memory of other processes, or memory that was not recorded");
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
                     "memory that other code of this process took from the driver itself, in %" PRIu32
                     " allocation%s",
                     count, count == 1 ? "" : "s");
}

/* A framework empties its cache before it gives up; nobody does for code that asks the driver. */
void vt_cause_idle_pool(struct vt_cause_search *search)
{
    const struct vt_oom *refusal = search->refusal;
    const char *release = search->shortage->device->cache_release;
    if (refusal->of_framework)
        return;
    struct vt_cause *cause = vt_cause_add(
        search, VT_CAUSE_IDLE_POOL, refusal->categories[VT_CATEGORY_CACHED], 0,
        release ? "memory that the framework's cache keeps reserved and nothing uses"
                : "memory that the driver's memory pool keeps (its release threshold) and nothing uses");
    if (cause && release)
        cause->remedy = "Empty the framework's cache before this request, or set a limit for it.";
}
