/* What is in a trace, and its events one by one. */
#include "report/info.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "report/moments.h"
#include "trace/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "vramtrace/digests.h"

#define KINDS 256

static void measure_file(const struct vt_trace *trace, struct vt_info *info)
{
    struct stat status;

    if (stat(trace->path, &status))
        return;
    info->file_bytes = (uint64_t)status.st_size;
    info->disk_bytes = (uint64_t)status.st_blocks * 512;
    if (info->file_bytes > trace->header.chunks_offset)
        info->chunk_bytes = info->file_bytes - trace->header.chunks_offset;
}

static void count_events(const struct vt_trace *trace, struct vt_info *info)
{
    uint64_t(*counts)[VT_LAYERS] = vt_allocate_zeros(KINDS, sizeof *counts);

    info->kinds = vt_allocate_zeros(KINDS, sizeof *info->kinds);
    if (trace->digest_kinds)
        memcpy(counts, trace->digest_kinds, VT_DIGEST_KINDS * sizeof *counts);
    for (size_t i = 0; i < trace->event_count; i++)
        if (!trace->events[i].head_start)
            counts[trace->events[i].kind][trace->events[i].layer < VT_LAYERS ? trace->events[i].layer : 0]++;
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct vt_kind_counts *found = &info->kinds[info->kind_count];
        uint64_t all = 0;

        for (int layer = 0; layer < VT_LAYERS; layer++) {
            all += found->layers[layer] = counts[kind][layer];
            info->layers[layer] += counts[kind][layer];
        }
        found->kind = vt_event_kind_name(kind);
        info->kind_count += all > 0;
    }
    free(counts);
}

static void put_reasons(char *text, size_t bytes, uint32_t reason)
{
    static const struct {
        uint32_t bit;
        const char *word;
    } words[] = {{VT_INSPECTION_NEW_OBJECT, "new object"},
                 {VT_INSPECTION_BACKWARD, "backward"},
                 {VT_INSPECTION_PEAK, "peak"},
                 {VT_INSPECTION_EXIT, "exit"},
                 {VT_INSPECTION_OUT_OF_MEMORY, "oom"},
                 {VT_INSPECTION_ASKED, "asked"},
                 {VT_INSPECTION_TIME, "time"},
                 {VT_INSPECTION_LIBRARY, "library"}};
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < sizeof words / sizeof *words && at < bytes; i++)
        if (reason & words[i].bit)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? ", " : "", words[i].word);
}

static void read_inspections(const struct vt_attribution *attribution, struct vt_info *info)
{
    const struct vt_trace *trace = attribution->trace;

    info->inspection_count = trace->inspection_count;
    info->lost_inspections = trace->lost_inspections;
    info->tensors = attribution->inspection_counts.tensors;
    info->homeless = attribution->inspection_counts.homeless;
    info->misplaced = attribution->inspection_counts.misplaced;
    info->failure = "";
    info->inspections = vt_allocate_zeros(trace->inspection_count + 1, sizeof *info->inspections);
    for (size_t i = 0; i < trace->inspection_count; i++) {
        const struct vt_inspection *seen = &trace->inspections[i];

        info->inspections[i] = (struct vt_inspection_facts){
            .t_ns = vt_event_time(trace, seen->event_index),
            .duration_ns = seen->duration_ns,
            .processor_ns = seen->processor_ns,
            .tensors = seen->tensor_count,
            .holders = seen->holder_count,
            .census = seen->census,
            .census_ended = seen->census_ended,
            .census_objects = seen->census_objects,
            .knows_collections = seen->knows_collections,
            .collections = seen->collections[0] + seen->collections[1] + seen->collections[2],
            .failure = seen->failure};
        put_reasons(info->inspections[i].reasons, sizeof info->inspections[i].reasons, seen->reason);
        info->census_count += seen->census;
        info->census_ended_count += seen->census_ended;
        info->inspection_ns += seen->duration_ns;
        info->failed_inspections += seen->failure[0] != '\0';
        info->failure = info->failure[0] ? info->failure : seen->failure;
    }
}

static void read_header(const struct vt_trace *trace, struct vt_info *info)
{
    const struct vt_file_header *header = &trace->header;

    info->format_version = header->format_version;
    info->program_version = header->program_version;
    info->host = header->host;
    info->parent_pid = header->parent_pid;
    info->stop_reason = header->stop_reason;
    info->ring_bytes = header->ring_slots * VT_SLOT_BYTES;
    info->working_folder = trace->working_folder;
    info->executable = trace->executable;
    info->python_version = trace->python_version;
    info->python_unsupported_minor = header->counters.python_unsupported_minor;
    info->python_free_threaded = header->counters.python_free_threaded != 0;
}

static void read_settings(const struct vt_trace *trace, struct vt_info *info)
{
    struct vt_setting_facts setting;
    size_t capacity = 0, at = 0;
    while ((setting.value = vt_setting_next(trace, &at, &setting.variable)))
        VT_APPEND(info->settings, info->setting_count, capacity, setting);
}

void vt_info_make(const struct vt_attribution *attribution, struct vt_info *info)
{
    const struct vt_trace *trace = attribution->trace;
    const struct vt_replay *replay = attribution->replay;

    *info = (struct vt_info){.unknown_frees = replay->unknown_frees,
                             .doubled_allocations = replay->doubled_allocations,
                             .total_mismatches = replay->total_mismatches,
                             .step_count = attribution->step_count};
    vt_trace_facts_read(trace, &info->facts);
    read_header(trace, info);
    measure_file(trace, info);
    read_inspections(attribution, info);
    read_settings(trace, info);
    info->devices = vt_allocate_zeros(trace->device_count + 1, sizeof *info->devices);
    count_events(trace, info);
    for (size_t i = 0; i < trace->device_count; i++)
        info->devices[info->device_count++] = (struct vt_device_facts){
            trace->devices[i].index, trace->devices[i].name, trace->devices[i].total_bytes};
}

void vt_info_free(struct vt_info *info)
{
    free(info->devices);
    free(info->settings);
    free(info->inspections);
    free(info->kinds);
    *info = (struct vt_info){0};
}

/* ---- Events ---- */

static void read_flags(const struct vt_event *event, struct vt_event_facts *facts)
{
    static const struct {
        uint8_t flag;
        const char *name;
    } known[] = {
        {VT_FLAG_HOST, "host"},         {VT_FLAG_MANAGED, "managed"},       {VT_FLAG_ASYNC, "async"},
        {VT_FLAG_FOREIGN, "foreign"},   {VT_FLAG_REGISTERED, "registered"}, {VT_FLAG_CAPTURED, "captured"},
        {VT_FLAG_ESTIMATE, "estimate"}, {VT_FLAG_COLLECTOR, "collector"}};
    const bool of_framework = event->layer == VT_LAYER_FRAMEWORK;
    size_t used = 0;

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *name = of_framework && known[i].flag == VT_FLAG_UNCOUNTED ? "uncounted" : known[i].name;

        if (!(event->flags & known[i].flag))
            continue;
        used += (size_t)snprintf(facts->flag_list + used, sizeof facts->flag_list - used, "%s%s",
                                 used ? "," : "", name);
        facts->flags[facts->flag_count++] = name;
    }
}

static void read_names(const struct vt_trace *trace, const struct vt_event *event,
                       struct vt_event_names *names)
{
    static const struct vt_trace_stack empty;
    const struct vt_trace_stack *stack =
        event->stack_id < trace->stack_count ? &trace->stacks[event->stack_id] : &empty;
    bool named = event->kind == VT_EVENT_MARK || event->kind == VT_EVENT_RANGE_PUSH;

    names->name = named ? vt_trace_string(trace, event->detail) : NULL;
    names->function = stack->function ? vt_trace_function(trace, stack->function) : NULL;
    names->label = stack->label ? vt_trace_function(trace, stack->label) : NULL;
    names->thread = stack->thread_id;
}

void vt_event_facts_read(const struct vt_trace *trace, uint32_t event_index, struct vt_event_facts *facts)
{
    const struct vt_event *event = &trace->events[event_index];

    *facts = (struct vt_event_facts){.index = event_index,
                                     .stack_id = event->stack_id,
                                     .t_ns = vt_event_time(trace, event_index),
                                     .kind = vt_event_kind_name(event->kind),
                                     .layer = vt_layer_name(event->layer),
                                     .device_index = event->device_index,
                                     .address = event->address,
                                     .bytes = event->bytes,
                                     .change_bytes = (int64_t)event->bytes,
                                     .is_change = event->kind == VT_EVENT_DELTA,
                                     .is_plain = event->kind != VT_EVENT_DELTA,
                                     .detail = event->detail,
                                     .total_bytes = event->total_bytes,
                                     .sequence = event->sequence};
    read_flags(event, facts);
    read_names(trace, event, &facts->names);
}

void vt_event_frames_read(const struct vt_trace *trace, struct vt_frame *frames, struct vt_event_facts *facts)
{
    struct vt_frame top[VT_EVENT_TOP_FRAMES];
    size_t count = vt_trace_frames(trace, facts->stack_id, top, VT_EVENT_TOP_FRAMES);

    snprintf(facts->address_text, sizeof facts->address_text, "0x%" PRIx64, facts->address);
    for (size_t i = 0; i < count && i < VT_EVENT_TOP_FRAMES; i++)
        facts->top_functions[facts->top_count++] = top[i].function;
    facts->has_at = vt_trace_user_frame(trace, facts->stack_id, &facts->at);
    facts->frames = frames;
    count = frames ? vt_trace_frames(trace, facts->stack_id, frames, VT_EVENT_FRAMES) : 0;
    facts->frame_count = count < VT_EVENT_FRAMES ? count : VT_EVENT_FRAMES;
}
