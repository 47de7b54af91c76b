/* What python/vramtrace/memory_viz.py makes a snapshot of: a line of JSON with the segments at the moment
 * that is shown, then tables as CSV, each after a row "table,NAME". */
#include <inttypes.h>

#include "view/exports.h"

/* Blocks and holes, by address; a hole's allocation is -1. */
static void put_blocks(const struct vt_segment *segment, FILE *out)
{
    uint32_t hole = 0, block = 0;
    const char *comma = "";

    while (hole < segment->hole_count || block < segment->block_count) {
        const struct vt_hole *next_hole = hole < segment->hole_count ? &segment->holes[hole] : NULL;
        const struct vt_block *next = block < segment->block_count ? &segment->blocks[block] : NULL;

        if (next && (!next_hole || next->address < next_hole->address)) {
            fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",%u]", comma, next->address, next->bytes,
                    next->allocation);
            block++;
        } else {
            fprintf(out, "%s[%" PRIu64 ",%" PRIu64 ",-1]", comma, next_hole->address, next_hole->bytes);
            hole++;
        }
        comma = ",";
    }
}

static void put_device(const struct vt_device_report *device, FILE *out)
{
    const struct vt_state *state = &device->shown->state;

    fprintf(out,
            "{\"index\":%d,\"event\":%u,\"t_ns\":%" PRIu64 ",\"segment_bytes\":%" PRIu64 ",\"segments\":[",
            device->index, state->event_index, state->t_ns, state->segment_bytes);
    for (size_t i = 0; i < device->fragmentation.segment_count; i++) {
        const struct vt_segment *segment = &device->fragmentation.segments[i];

        fprintf(out, "%s{\"allocation\":%u,\"bytes\":%" PRIu64 ",\"pool\":\"%s\",\"blocks\":[", i ? "," : "",
                segment->allocation, segment->bytes, segment->pool);
        put_blocks(segment, out);
        fputs("]}", out);
    }
    fputs("]}", out);
}

int vt_memory_viz_write(const struct vt_export *export)
{
    static const uint8_t tables[] = {VT_TABLE_EVENTS, VT_TABLE_ALLOCATIONS, VT_TABLE_FRAMES,
                                     VT_TABLE_STACKS, VT_TABLE_PHASES,      VT_TABLE_OUT_OF_MEMORY,
                                     VT_TABLE_MARKS};
    const struct vt_report *report = export->report;
    int result = 0;

    fprintf(export->stream, "{\"start_ns\":%" PRIu64 ",\"devices\":[", report->facts.start_realtime_ns);
    for (size_t i = 0; i < report->device_count; i++) {
        fputs(i ? "," : "", export->stream);
        put_device(&report->devices[i], export->stream);
    }
    fputs("],\"free_bytes\":[",
          export->stream); /* for each out of memory: the table has only what was reported */
    for (size_t i = 0; i < report->refusal_count; i++)
        fprintf(export->stream, "%s%" PRIu64, i ? "," : "", report->refusals[i].free_bytes);
    fputs("]}\n", export->stream);
    for (size_t i = 0; !result && i < sizeof tables; i++) {
        struct vt_export one = *export;

        one.table = tables[i];
        fprintf(export->stream, "table,%s\n", vt_table_names[one.table]);
        result = vt_csv_table_write(&one);
    }
    return result;
}
