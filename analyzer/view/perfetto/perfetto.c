/* A Perfetto trace: for each device counters of its bytes, steps with their phases, and every allocation with
 * its call stack; marks and out of memory; and a heap profile of what is alive at the shown instant. */
#include "view/perfetto/packets.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

#define TRACKS_EACH 64 /* numbers that a device's tracks may have */
#define UNIT_BYTES 3u
#define ORDER_BY_RANK 3u

/* The process's tracks have these numbers; the devices' tracks come after them. */
enum { TRACK_PROCESS, TRACK_MARKS, TRACK_REFUSALS, TRACK_HOST_PINNED, TRACK_HOST_ALLOCATIONS };
/* A device's tracks; the counters of categories come after them. */
enum {
    TRACK_DEVICE,
    TRACK_STEPS,
    TRACK_ALLOCATIONS,
    TRACK_SEGMENTS,
    TRACK_USED,
    TRACK_DRIVER,
    TRACK_CATEGORIES
};

struct writer {
    const struct vt_export *export;
    const struct vt_report *report;
    struct vt_packets packets;
    struct vt_stack_list stacks;
    uint64_t first_uuid;
    size_t device; /* index: of the walk of instants */
    bool counted[TRACKS_EACH];
    uint64_t last[TRACKS_EACH];      /* value of each counter of that device */
    const struct vt_phase_row *open; /* of the walk of phases; NULL = none */
    struct vt_phase_row phase;
};

/* ---- Tracks ---- */

static uint64_t process_track(const struct writer *writer, unsigned track)
{
    return writer->first_uuid + track;
}

static uint64_t device_track(const struct writer *writer, size_t device, unsigned track)
{
    return writer->first_uuid + (device + 1) * TRACKS_EACH + track;
}

static size_t device_of(const struct writer *writer, int device_index)
{
    size_t i = 0;

    while (i < writer->report->device_count && writer->report->devices[i].index != device_index)
        i++;
    return i;
}

/* Parent 0 = none. */
static void put_track(struct writer *writer, uint64_t uuid, uint64_t parent, const char *name, int32_t rank,
                      Perfetto__ProcessDescriptor *process, Perfetto__CounterDescriptor *counter)
{
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;

    track.has_uuid = true;
    track.uuid = uuid;
    track.has_parent_uuid = parent != 0;
    track.parent_uuid = parent;
    track.name = name ? vt_packets_clean(&writer->packets, name) : NULL;
    track.process = process;
    track.counter = counter;
    track.has_child_ordering = true;
    track.child_ordering = ORDER_BY_RANK;
    track.has_sibling_order_rank = true;
    track.sibling_order_rank = rank;
    packet.track_descriptor = &track;
    vt_packet_put(&writer->packets, &packet);
}

/* "python train.py": Perfetto shows what stands behind the last slash. */
static void name_process(const struct vt_trace_facts *facts, char *name, size_t bytes)
{
    bool script = facts->argument_count > 1 && facts->arguments[1][0] != '-';

    snprintf(name, bytes, "%.100s%s%.100s",
             basename(facts->argument_count ? facts->arguments[0] : facts->command), script ? " " : "",
             script ? basename(facts->arguments[1]) : "");
}

static void put_tracks(struct writer *writer)
{
    const struct vt_trace_facts *facts = &writer->report->facts;
    Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;
    uint64_t parent = process_track(writer, TRACK_PROCESS);
    char program[256];

    name_process(facts, program, sizeof program);
    process.has_pid = true;
    process.pid = (int32_t)facts->pid;
    process.process_name = vt_packets_clean(&writer->packets, program);
    process.cmdline = (char **)facts->arguments;
    process.n_cmdline = facts->argument_count;
    put_track(writer, parent, 0, NULL, 0, &process, NULL);
    put_track(writer, process_track(writer, TRACK_MARKS), parent, "marks", 0, NULL, NULL);
    put_track(writer, process_track(writer, TRACK_REFUSALS), parent, "out of memory", 1, NULL, NULL);
    put_track(writer, process_track(writer, TRACK_HOST_ALLOCATIONS), parent, "host_pinned allocations", 1000,
              NULL, NULL);
    for (size_t i = 0; i < writer->report->device_count; i++) {
        const struct vt_device_report *device = &writer->report->devices[i];
        uint64_t uuid = device_track(writer, i, TRACK_DEVICE);
        char name[160];

        snprintf(name, sizeof name, "GPU %d%s%.100s", device->index, device->name[0] ? " " : "",
                 device->name);
        put_track(writer, uuid, parent, name, (int32_t)i + 2, NULL, NULL);
        put_track(writer, device_track(writer, i, TRACK_STEPS), uuid, "steps", 0, NULL, NULL);
        put_track(writer, device_track(writer, i, TRACK_ALLOCATIONS), uuid, "allocations", 100, NULL, NULL);
        put_track(writer, device_track(writer, i, TRACK_SEGMENTS), uuid, "segments", 101, NULL, NULL);
    }
}

/* ---- Counters ---- */

/* Of the current device. Counters of memory in use share one scale. */
static void put_counter(struct writer *writer, unsigned track, const char *name, uint64_t t_ns,
                        uint64_t value)
{
    bool in_use = track != TRACK_DRIVER && track != TRACK_CATEGORIES + VT_CATEGORY_CONTEXT &&
                  track != TRACK_CATEGORIES + VT_CATEGORY_CACHED;
    bool of_process = track == TRACK_CATEGORIES + VT_CATEGORY_HOST_PINNED;
    uint64_t parent = of_process ? process_track(writer, TRACK_PROCESS)
                                 : device_track(writer, writer->device, TRACK_DEVICE);
    uint64_t uuid =
        of_process ? process_track(writer, TRACK_HOST_PINNED) : device_track(writer, writer->device, track);
    Perfetto__CounterDescriptor counter = PERFETTO__COUNTER_DESCRIPTOR__INIT;
    char key[32];

    if (value == writer->last[track] || (of_process && writer->device))
        return; /* a counter that is always 0 is left out */
    writer->last[track] = value;
    if (!writer->counted[track]) {
        snprintf(key, sizeof key, "%" PRIx64, parent);
        counter.has_unit = true;
        counter.unit = UNIT_BYTES;
        counter.y_axis_share_key = in_use ? key : NULL;
        put_track(writer, uuid, parent, name, (int32_t)track, NULL, &counter);
        writer->counted[track] = true;
    }
    vt_event_put(
        &writer->packets,
        &(struct vt_track_event){.t_ns = t_ns, .track_uuid = uuid, .type = VT_EVENT_COUNTER, .value = value});
}

static int put_instant(void *context, const void *item)
{
    struct writer *writer = context;
    const struct vt_instant_row *row = item;
    const struct vt_state *state = &row->state;

    if (row->device_index != writer->report->devices[writer->device].index) {
        writer->device = device_of(writer, row->device_index);
        memset(writer->counted, 0, sizeof writer->counted);
        memset(writer->last, 0, sizeof writer->last);
    }
    put_counter(writer, TRACK_USED, "in use", state->t_ns, state->used_bytes);
    put_counter(writer, TRACK_DRIVER, "driver", state->t_ns, state->driver_bytes);
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        put_counter(writer, TRACK_CATEGORIES + c, vt_category_name(c), state->t_ns, state->categories[c]);
    return 0;
}

/* ---- Steps and phases ---- */

static int compare_step(const void *item, const void *key)
{
    return vt_order(((const struct vt_step *)item)->step, *(const uint32_t *)key);
}

static const struct vt_step *find_step(const struct vt_steps *steps, uint32_t number)
{
    size_t i = vt_lower_bound(steps->items, steps->count, sizeof *steps->items, &number, compare_step);

    return i < steps->count && steps->items[i].step == number ? &steps->items[i] : NULL;
}

static void put_slice(struct writer *writer, size_t device, unsigned type, uint64_t t_ns, const char *name,
                      const char *category)
{
    vt_event_put(&writer->packets,
                 &(struct vt_track_event){.t_ns = t_ns,
                                          .track_uuid = device_track(writer, device, TRACK_STEPS),
                                          .type = type,
                                          .name = name,
                                          .category = category});
}

static void begin_step(struct writer *writer, size_t device, uint32_t number, uint64_t t_ns)
{
    const struct vt_step *step = find_step(&writer->report->devices[device].steps, number);
    char name[32];

    snprintf(name, sizeof name, "step %u", number);
    vt_note_number(&writer->packets, "step", number);
    if (step) {
        vt_note_number(&writer->packets, "peak_bytes", step->peak.used_bytes);
        vt_note_number(&writer->packets, "end_bytes", step->end.used_bytes);
    }
    put_slice(writer, device, VT_SLICE_BEGIN, t_ns, number ? name : "before", "step");
}

static int put_phase(void *context, const void *item)
{
    struct writer *writer = context;
    const struct vt_phase_row *row = item;
    bool new_step = !writer->open || writer->open->step != row->step;

    for (size_t i = 0; i < writer->report->device_count; i++) {
        if (new_step && writer->open)
            put_slice(writer, i, VT_SLICE_END, row->t_ns, NULL, NULL);
        if (new_step)
            begin_step(writer, i, row->step, row->step ? row->t_ns : 0); /* 0 is since recording began */
        put_slice(writer, i, VT_SLICE_BEGIN, row->t_ns, vt_phase_name(row->phase), "phase");
        put_slice(writer, i, VT_SLICE_END, row->end_ns, NULL, NULL);
    }
    writer->phase = *row;
    writer->open = &writer->phase;
    return 0;
}

static void put_phases(struct writer *writer)
{
    vt_table_walk(writer->export->tables, VT_TABLE_PHASES, put_phase, writer);
    for (size_t i = 0; i < writer->report->device_count && writer->open; i++)
        put_slice(writer, i, VT_SLICE_END, writer->open->end_ns, NULL, NULL);
}

/* ---- Marks and out of memory ---- */

static void put_marks(struct writer *writer)
{
    struct vt_packets *packets = &writer->packets;

    for (size_t i = 0; i < writer->report->mark_count; i++)
        vt_event_put(packets, &(struct vt_track_event){.t_ns = writer->report->marks[i].t_ns,
                                                       .track_uuid = process_track(writer, TRACK_MARKS),
                                                       .type = VT_EVENT_INSTANT,
                                                       .name = writer->report->marks[i].name,
                                                       .category = "mark"});
    for (size_t i = 0; i < writer->report->refusal_count; i++) {
        const struct vt_oom *refusal = &writer->report->refusals[i];

        vt_note_number(packets, "requested_bytes", refusal->asked_bytes);
        if (refusal->free_known)
            vt_note_number(packets, "free_bytes", refusal->free_bytes);
        vt_note_number(packets, "step", refusal->step);
        vt_note_text(packets, "phase", vt_phase_name(refusal->phase));
        vt_note_text(packets, "asker", refusal->asker);
        vt_note_text(packets, "module", refusal->asker_module);
        vt_note_number(packets, "device", (uint64_t)(refusal->device_index < 0 ? 0 : refusal->device_index));
        vt_event_put(packets, &(struct vt_track_event){.t_ns = refusal->t_ns,
                                                       .track_uuid = process_track(writer, TRACK_REFUSALS),
                                                       .type = VT_EVENT_INSTANT,
                                                       .name = "out of memory",
                                                       .category = "out_of_memory",
                                                       .stack_iid = vt_packets_stack(
                                                           packets, refusal->stack_id, 0, VT_CATEGORY_COUNT),
                                                       .bytes = refusal->asked_bytes});
    }
}

/* ---- Allocations ---- */

static int put_allocation(void *context, const void *item)
{
    struct writer *writer = context;
    struct vt_packets *packets = &writer->packets;
    const struct vt_allocation_row *row = item;
    const struct vt_block *block = &row->block;
    size_t device = device_of(writer, row->device_index);
    bool counted = row->counted_bytes != 0, host = row->device_index < 0;
    unsigned track = counted ? TRACK_ALLOCATIONS : TRACK_SEGMENTS;

    if ((device >= writer->report->device_count && !host) || (!counted && !row->driver_bytes))
        return 0;
    vt_note_number(packets, "bytes", block->bytes);
    vt_note_text(packets, "kind", block->kind);
    if (counted) {
        vt_note_text(packets, "evidence", vt_evidence_name(block->evidence));
        vt_note_text(packets, "owner", block->owner);
        vt_note_text(packets, "module", block->module);
        vt_note_text(packets, "class", row->module_class);
        vt_note_text(packets, "operator", block->operator_name);
    }
    vt_note_text(packets, "place", block->shown_place ? block->shown_place->name : NULL);
    vt_note_number(packets, "step", block->step);
    vt_note_text(packets, "phase", vt_phase_name(block->phase));
    vt_note_address(packets, "address", block->address);
    vt_note_number(packets, "allocation", block->allocation);
    if (block->freed) /* clocks of two threads can be a little apart */
        vt_note_number(packets, "lifetime_ns",
                       row->free_t_ns > block->t_ns ? row->free_t_ns - block->t_ns : 0);
    vt_event_put(packets, &(struct vt_track_event){
                              .t_ns = block->t_ns,
                              .track_uuid = host ? process_track(writer, TRACK_HOST_ALLOCATIONS)
                                                 : device_track(writer, device, track),
                              .type = VT_EVENT_INSTANT,
                              .name = counted ? vt_category_name(block->category) : "segment",
                              .category = "allocation",
                              .stack_iid = vt_packets_stack(packets, row->stack_id, row->forward_stack_id,
                                                            VT_CATEGORY_COUNT),
                              .bytes = block->bytes});
    return 0;
}

/* ---- The heap profile ---- */

/* The messages of the profile: one for each device and one for each sample. */
struct profile {
    Perfetto__ProcessHeapSamples *dumps, **dump_list;
    Perfetto__HeapSample *samples, **sample_list;
    char (*names)[32]; /* of devices */
};

/* Samples of a device, from *first on. */
static void fill_dump(struct writer *writer, const struct vt_device_report *device,
                      const struct vt_sample_list *samples, size_t *first, struct profile *profile)
{
    size_t number = (size_t)(device - writer->report->devices), begin = *first;
    Perfetto__ProcessHeapSamples *dump = profile->dump_list[number] = &profile->dumps[number];

    *dump = (Perfetto__ProcessHeapSamples)PERFETTO__PROCESS_HEAP_SAMPLES__INIT;
    for (; *first < samples->count && samples->items[*first].device_index == device->index; ++*first) {
        const struct vt_sample *from = &samples->items[*first];
        Perfetto__HeapSample *sample = profile->sample_list[*first] = &profile->samples[*first];

        *sample = (Perfetto__HeapSample)PERFETTO__HEAP_SAMPLE__INIT;
        sample->has_callstack_id = sample->has_self_allocated = sample->has_alloc_count = true;
        sample->callstack_id =
            vt_packets_stack(&writer->packets, from->stack_id, from->forward_stack_id, from->category);
        sample->self_allocated = from->bytes;
        sample->alloc_count = from->count;
    }
    dump->has_pid = dump->has_timestamp = true;
    dump->pid = writer->report->facts.pid;
    dump->timestamp = writer->packets.start_ns + device->shown->state.t_ns;
    snprintf(profile->names[number], sizeof *profile->names, "GPU %d", device->index);
    dump->heap_name = profile->names[number];
    dump->samples = profile->sample_list + begin;
    dump->n_samples = *first - begin;
}

static void put_profile(struct writer *writer, const struct vt_sample_list *samples)
{
    size_t devices = writer->report->device_count, first = 0;
    struct vt_arena arena = {.pieces = NULL};
    struct profile parts = {.dumps = vt_arena_take(&arena, devices * sizeof *parts.dumps),
                            .dump_list = vt_arena_take(&arena, devices * sizeof *parts.dump_list),
                            .samples = vt_arena_take(&arena, samples->count * sizeof *parts.samples),
                            .sample_list = vt_arena_take(&arena, samples->count * sizeof *parts.sample_list),
                            .names = vt_arena_take(&arena, devices * sizeof *parts.names)};
    Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
    Perfetto__ProfilePacket profile = PERFETTO__PROFILE_PACKET__INIT;

    for (size_t i = 0; i < devices; i++)
        fill_dump(writer, &writer->report->devices[i], samples, &first, &parts);
    profile.process_dumps = parts.dump_list;
    profile.n_process_dumps = devices;
    packet.has_timestamp = true;
    packet.timestamp = parts.dumps[0].timestamp;
    packet.profile_packet = &profile;
    vt_packet_put(&writer->packets, &packet);
    vt_arena_free(&arena);
}

static void put_what_is_alive(struct writer *writer)
{
    struct vt_sample_list samples;

    vt_samples_read(writer->export, &samples);
    vt_samples_merge(&samples);
    if (samples.count)
        put_profile(writer, &samples);
    vt_samples_free(&samples);
}

/* ---- The file ---- */

int vt_perfetto_write(const struct vt_export *export)
{
    const struct vt_trace_facts *facts = &export->report->facts;
    struct writer writer = {.export = export, .report = export->report};
    /* Traces of a job's processes may be put into one file, one behind the other. */
    uint64_t seed = vt_mix(facts->start_realtime_ns, facts->pid);

    vt_stacks_read(export->tables, &writer.stacks);
    writer.first_uuid = (seed << 16) + 1;
    writer.packets = (struct vt_packets){.out = export->stream,
                                         .start_ns = facts->start_realtime_ns,
                                         .sequence_id = (uint32_t)(seed >> 32) | 1,
                                         .stacks = &writer.stacks};
    vt_packets_begin(&writer.packets);
    put_tracks(&writer);
    put_marks(&writer);
    put_phases(&writer);
    vt_table_walk(export->tables, VT_TABLE_INSTANTS, put_instant, &writer);
    vt_table_walk(export->tables, VT_TABLE_ALLOCATIONS, put_allocation, &writer);
    put_what_is_alive(&writer);
    vt_packets_free(&writer.packets);
    vt_stacks_free(&writer.stacks);
    return 0;
}
