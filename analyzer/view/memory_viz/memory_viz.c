/* The snapshot of PyTorch's caching allocator, as torch.cuda.memory._snapshot() makes it, pickled: for
 * pytorch.org/memory_viz and other tools that read such snapshots. What is not PyTorch's own:
 *
 *  - Device memory that no caching allocator owns (of libraries, the context) is there too: each such
 * allocation as a segment with one block. These segments have a key "vramtrace_kind" (driver, context,
 * pooled, block); without them, the sums are PyTorch's counters. What has no address gets one from 2^48 on.
 *  - Actions and blocks have a "category", by which the viewer colours them; "user_metadata" is the owner or
 * module.
 *  - A free is requested and completed at once, and all streams are 0: a trace knows neither.
 *  - Phases and marks are external annotations. */
#include "view/exports.h"
#include "view/memory_viz/snapshot.h"

/* ---- Segments ---- */

/* Numbers of a segment's blocks. */
struct sums {
    uint64_t active_bytes, requested_bytes;
};

static void write_segment(struct vt_snapshot *snapshot, const struct vt_memory *memory, uint64_t total_bytes,
                          const char *type, const struct sums *sums)
{
    bool mapped = memory->role == VT_MEMORY_MAPPED;

    vt_snapshot_key_number(snapshot, "device", (uint64_t)memory->device_index);
    vt_snapshot_key_number(snapshot, "address", memory->address);
    vt_snapshot_key_number(snapshot, "total_size", total_bytes);
    vt_snapshot_key_number(snapshot, "allocated_size", sums->active_bytes);
    vt_snapshot_key_number(snapshot, "active_size", sums->active_bytes);
    vt_snapshot_key_number(snapshot, "requested_size", sums->requested_bytes);
    vt_snapshot_key_number(snapshot, "stream", 0);
    vt_snapshot_key_text(snapshot, "segment_type", type);
    vt_pickle_text(&snapshot->pickle, "segment_pool_id");
    vt_pickle_number(&snapshot->pickle, 0);
    vt_pickle_number(&snapshot->pickle, 0);
    vt_pickle_pair(&snapshot->pickle);
    vt_pickle_text(&snapshot->pickle, "is_expandable");
    vt_pickle_bool(&snapshot->pickle, mapped);
    vt_snapshot_frames(snapshot, memory->stack);
    if (memory->role == VT_MEMORY_DIRECT)
        vt_snapshot_key_text(snapshot, "vramtrace_kind", memory->kind);
}

/* MEMORY is NULL for a hole. */
static void write_block(struct vt_snapshot *snapshot, uint64_t address, uint64_t bytes,
                        const struct vt_memory *memory)
{
    vt_pickle_dict(&snapshot->pickle);
    vt_snapshot_key_number(snapshot, "address", address);
    vt_snapshot_key_number(snapshot, "size", bytes);
    vt_snapshot_key_number(snapshot, "requested_size", memory ? bytes - memory->rounding_bytes : 0);
    vt_snapshot_key_text(snapshot, "state", memory ? "active_allocated" : "inactive");
    vt_snapshot_frames(snapshot, memory ? memory->stack : 0);
    if (memory) {
        vt_snapshot_key_text(snapshot, "category", vt_category_name(memory->category));
        vt_snapshot_key_text(snapshot, "user_metadata", memory->about);
    }
    vt_pickle_dict_end(&snapshot->pickle);
}

/* Blocks and holes, by address. */
static void write_blocks(struct vt_snapshot *snapshot, const struct vt_segment *segment)
{
    uint32_t hole = 0, block = 0;
    struct vt_pickle_batch batch = {0};

    vt_pickle_text(&snapshot->pickle, "blocks");
    vt_pickle_list(&snapshot->pickle);
    while (hole < segment->hole_count || block < segment->block_count) {
        const struct vt_hole *next_hole = hole < segment->hole_count ? &segment->holes[hole] : NULL;
        const struct vt_block *next = block < segment->block_count ? &segment->blocks[block] : NULL;

        vt_pickle_item(&snapshot->pickle, &batch);
        if (next && (!next_hole || next->address < next_hole->address)) {
            write_block(snapshot, next->address, next->bytes, &snapshot->memory[next->allocation]);
            block++;
        } else {
            write_block(snapshot, next_hole->address, next_hole->bytes, NULL);
            hole++;
        }
    }
    vt_pickle_list_end(&snapshot->pickle, &batch);
}

static void write_cached_segment(struct vt_snapshot *snapshot, const struct vt_segment *segment)
{
    struct sums sums = {.active_bytes = segment->block_bytes, .requested_bytes = segment->block_bytes};

    for (uint32_t i = 0; i < segment->block_count; i++)
        sums.requested_bytes -= snapshot->memory[segment->blocks[i].allocation].rounding_bytes;
    vt_pickle_dict(&snapshot->pickle);
    write_segment(snapshot, &snapshot->memory[segment->allocation], segment->bytes, segment->pool, &sums);
    write_blocks(snapshot, segment);
    vt_pickle_dict_end(&snapshot->pickle);
}

static void write_direct(struct vt_snapshot *snapshot, const struct vt_memory *memory)
{
    struct sums sums = {.active_bytes = memory->bytes,
                        .requested_bytes = memory->bytes - memory->rounding_bytes};
    struct vt_pickle_batch batch = {0};

    vt_pickle_dict(&snapshot->pickle);
    write_segment(snapshot, memory, memory->bytes, "large", &sums);
    vt_pickle_text(&snapshot->pickle, "blocks");
    vt_pickle_list(&snapshot->pickle);
    vt_pickle_item(&snapshot->pickle, &batch);
    write_block(snapshot, memory->address, memory->bytes, memory);
    vt_pickle_list_end(&snapshot->pickle, &batch);
    vt_pickle_dict_end(&snapshot->pickle);
}

static void write_segments(struct vt_snapshot *snapshot)
{
    const struct vt_report *report = snapshot->report;
    struct vt_pickle_batch batch = {0};

    vt_pickle_text(&snapshot->pickle, "segments");
    vt_pickle_list(&snapshot->pickle);
    for (size_t d = 0; d < report->device_count; d++) {
        const struct vt_device_report *device = &report->devices[d];
        uint32_t event = device->shown->state.event_index;

        for (size_t i = 0; i < device->fragmentation.segment_count; i++) {
            vt_pickle_item(&snapshot->pickle, &batch);
            write_cached_segment(snapshot, &device->fragmentation.segments[i]);
        }
        for (size_t i = 0; i < snapshot->memory_count; i++) {
            const struct vt_memory *memory = &snapshot->memory[i];

            if (memory->role != VT_MEMORY_DIRECT || memory->device_index != device->index ||
                memory->alloc_event > event || memory->free_event <= event)
                continue;
            vt_pickle_item(&snapshot->pickle, &batch);
            write_direct(snapshot, memory);
        }
    }
    vt_pickle_list_end(&snapshot->pickle, &batch);
}

/* ---- Annotations ---- */

struct annotating {
    struct vt_snapshot *snapshot;
    const struct vt_device_report *device;
    struct vt_pickle_batch batch;
};

/* An end of a span of time, if the snapshot goes that far. */
static void annotate(struct annotating *annotating, const char *name, const char *stage, uint64_t t_ns)
{
    struct vt_snapshot *snapshot = annotating->snapshot;

    if (t_ns > annotating->device->shown->state.t_ns)
        return;
    vt_pickle_item(&snapshot->pickle, &annotating->batch);
    vt_pickle_dict(&snapshot->pickle);
    vt_snapshot_key_number(snapshot, "device", (uint64_t)annotating->device->index);
    vt_snapshot_key_text(snapshot, "name", name);
    vt_snapshot_key_text(snapshot, "stage", stage);
    vt_snapshot_key_number(snapshot, "time_us", vt_snapshot_time(snapshot, t_ns));
    vt_pickle_dict_end(&snapshot->pickle);
}

static int annotate_phase(void *context, const void *item)
{
    const struct vt_phase_row *row = item;

    annotate(context, vt_phase_name(row->phase), "START", row->t_ns);
    annotate(context, vt_phase_name(row->phase), "END", row->end_ns);
    return 0;
}

static int annotate_mark(void *context, const void *item)
{
    const struct vt_mark *mark = item;

    annotate(context, mark->name, "START", mark->t_ns);
    annotate(context, mark->name, "END", mark->t_ns);
    return 0;
}

static int write_annotations(struct vt_snapshot *snapshot, struct vt_tables *tables)
{
    const struct vt_report *report = snapshot->report;
    struct annotating annotating = {.snapshot = snapshot};
    int result = 0;

    vt_pickle_text(&snapshot->pickle, "external_annotations");
    vt_pickle_list(&snapshot->pickle);
    for (size_t d = 0; d < report->device_count && !result; d++) {
        annotating.device = &report->devices[d];
        result = vt_table_walk(tables, VT_TABLE_PHASES, annotate_phase, &annotating);
        if (!result)
            result = vt_table_walk(tables, VT_TABLE_MARKS, annotate_mark, &annotating);
    }
    vt_pickle_list_end(&snapshot->pickle, &annotating.batch);
    return result;
}

/* ---- The whole ---- */

/* Of PyTorch's settings a trace shows one. */
static void write_settings(struct vt_snapshot *snapshot)
{
    bool expandable = false;

    for (size_t i = 0; i < snapshot->memory_count; i++)
        expandable |= snapshot->memory[i].role == VT_MEMORY_MAPPED;
    vt_pickle_text(&snapshot->pickle, "allocator_settings");
    vt_pickle_dict(&snapshot->pickle);
    vt_pickle_text(&snapshot->pickle, "expandable_segments");
    vt_pickle_bool(&snapshot->pickle, expandable);
    vt_pickle_dict_end(&snapshot->pickle);
}

static size_t device_count(const struct vt_report *report)
{
    size_t count = 0;

    for (size_t i = 0; i < report->device_count; i++)
        if ((size_t)report->devices[i].index >= count)
            count = (size_t)report->devices[i].index + 1;
    return count;
}

int vt_memory_viz_write(const struct vt_export *export)
{
    struct vt_snapshot snapshot;
    int result = vt_snapshot_make(export->report, export->tables, &snapshot), error;

    if (result) {
        vt_snapshot_free(&snapshot);
        return result;
    }
    vt_pickle_begin(&snapshot.pickle, export->stream);
    vt_pickle_dict(&snapshot.pickle);
    write_segments(&snapshot);
    result = vt_snapshot_actions(&snapshot, device_count(export->report));
    write_settings(&snapshot);
    if (!result)
        result = write_annotations(&snapshot, export->tables);
    vt_pickle_dict_end(&snapshot.pickle);
    error = vt_pickle_end(&snapshot.pickle);
    vt_snapshot_free(&snapshot);
    return result ? result : error;
}
