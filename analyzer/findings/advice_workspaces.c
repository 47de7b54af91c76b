/* Advice on workspaces: PyTorch keeps one of cuBLAS for each stream and handle, for good. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "findings/adviser.h"
#include "trace/places.h"
#include "trace/settings.h"

#define SMALL_WORKSPACE_BYTES                                                                                \
    (UINT64_C(8) * (16u << 10)) /* what vt_remedy_small_workspaces asks for: 8 of 16 KiB */
#define LEAST_STREAMS 2u

static bool is_workspace(const struct vt_adviser *adviser, size_t index)
{
    const struct vt_allocation *block = &adviser->replay->allocations[index];
    return vt_whatif_counts(&adviser->whatif, block) &&
           adviser->attribution->labels[index].category == VT_CATEGORY_WORKSPACE &&
           vt_trace_place(adviser->replay->trace, block->alloc_event) &&
           (vt_stack_traits_of(adviser->attribution, block->stack_id)->traits & VT_TRAIT(BLAS_WORKSPACE));
}

void vt_advise_workspaces(struct vt_adviser *adviser)
{
    const struct vt_trace *trace = adviser->replay->trace;
    uint64_t count = 0, bytes = 0;
    uint32_t streams = 0, stack_id = 0;
    char all[24];
    if (!trace->event_places || vt_setting_in_force(trace, vt_remedy_small_workspaces.how))
        return;
    uint8_t *seen = vt_allocate_zeros(trace->place_count, sizeof *seen);
    for (size_t i = 0; i < adviser->replay->allocation_count; i++) {
        const struct vt_allocation *block = &adviser->replay->allocations[i];
        if (!is_workspace(adviser, i))
            continue;
        if (block->bytes > SMALL_WORKSPACE_BYTES)
            vt_whatif_less(&adviser->whatif, block, block->alloc_event, block->free_event,
                           block->bytes - SMALL_WORKSPACE_BYTES);
        if (!vt_alive_at(block, adviser->whatif.peak_event))
            continue;
        const uint32_t place = vt_trace_place(trace, block->alloc_event);
        count++;
        bytes += block->bytes;
        streams += !seen[place];
        seen[place] = 1;
        stack_id = block->stack_id;
    }
    free(seen);
    const uint64_t saved = vt_whatif_saves(&adviser->whatif);
    if (streams >= LEAST_STREAMS)
        vt_advise(adviser, VT_ADVICE_WORKSPACES, saved, (struct vt_advice_subject){.stack_id = stack_id},
                  &vt_remedy_small_workspaces,
                  "%" PRIu64 " workspaces of cuBLAS on %" PRIu32
                  " streams hold %s at the peak: each stream keeps its "
                  "own. Fewer streams need fewer; smaller workspaces may make products slower",
                  count, streams, vt_format_bytes(bytes, all));
}
