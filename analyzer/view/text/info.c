/* A trace's facts and single events, as text that is not wrapped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "view/text/print.h"
#include "view/text/views.h"

#define put_line(out, name, ...) put_line_text(out, name, vt_print_text(__VA_ARGS__))

/* Frees `text`. */
static void put_line_text(FILE *out, const char *name, char *text)
{
    fprintf(out, "%-14s", name);
    vt_put_clean(text, out);
    fputc('\n', out);
    free(text);
}

static void put_size(FILE *out, const struct vt_info *info)
{
    char disk[64] = "", per_event[48] = "";

    if (info->disk_bytes < info->file_bytes)
        snprintf(disk, sizeof disk, ", %s on disk", VT_BYTES(info->disk_bytes));
    if (info->facts.event_count)
        snprintf(per_event, sizeof per_event, " (%.1f bytes per event)",
                 (double)info->disk_bytes / (double)info->facts.event_count);
    put_line(out, "size", "%s%s%s; ring of %s; format %u, written by %.31s", VT_BYTES(info->file_bytes), disk,
             per_event, VT_BYTES(info->ring_bytes), info->format_version,
             info->program_version[0] ? info->program_version : "an unknown version");
}

static void print_process(FILE *out, const struct vt_info *info)
{
    time_t start = (time_t)(info->facts.start_realtime_ns / 1000000000u);
    uint32_t python = info->python_version;
    char when[64] = "";
    struct tm parts;

    put_line(out, "file", "%s", info->facts.path);
    put_size(out, info);
    put_line(out, "command", "%s", info->facts.command);
    put_line(out, "folder", "%s", info->working_folder ? info->working_folder : "");
    put_line(out, "executable", "%s", info->executable ? info->executable : "");
    put_line(out, "process", "pid %u, parent %u, on %.63s", info->facts.pid, info->parent_pid, info->host);
    if (localtime_r(&start, &parts))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &parts);
    put_line(out, "began", "%s", when);
    if (python)
        put_line(out, "python", "%u.%u.%u%s", python >> 24, python >> 16 & 0xff, python >> 8 & 0xff,
                 info->python_unsupported_minor ? " (not supported: its frames are not recorded)"
                 : info->python_free_threaded
                     ? " free-threaded (objects are not inspected, so tensors have no names)"
                     : "");
    else
        put_line(out, "python", "none");
    for (size_t i = 0; i < info->setting_count; i++)
        put_line(out, "setting", "%s%s%s", info->settings[i].variable ? info->settings[i].variable : "",
                 info->settings[i].variable ? "=" : "by the program: ", info->settings[i].value);
    for (size_t i = 0; i < info->device_count; i++)
        put_line(out, "device", "%d %.100s, %s", info->devices[i].index,
                 info->devices[i].name[0] ? info->devices[i].name : "unnamed",
                 info->devices[i].total_bytes ? VT_BYTES(info->devices[i].total_bytes) : "size unknown");
}

static void put_inspections(FILE *out, const struct vt_info *info)
{
    char homeless[48] = "", misplaced[48] = "";

    if (!info->inspection_count && !info->lost_inspections) {
        put_line(out, "inspections", "none");
        return;
    }
    if (info->homeless)
        snprintf(homeless, sizeof homeless, ", %" PRIu64 " in no block", info->homeless);
    if (info->misplaced)
        snprintf(misplaced, sizeof misplaced, ", %" PRIu64 " that fit no block", info->misplaced);
    put_line(out, "inspections",
             "%" PRIu64 " in %s, %" PRIu64 " incomplete%s%.200s, %" PRIu64 " lost; %s tensors%s%s",
             info->inspection_count, VT_DURATION(info->inspection_ns), info->failed_inspections,
             info->failure[0] ? ": " : "", info->failure, info->lost_inspections, VT_COUNT(info->tensors),
             homeless, misplaced);
    if (info->census_count)
        put_line(out, "holders", "%" PRIu64 " search%s, %" PRIu64 " cut short%s", info->census_count,
                 info->census_count == 1 ? "" : "es", info->census_count - info->census_ended_count,
                 info->census_count > info->census_ended_count
                     ? " (time budget used up; vramtrace.inspect() makes a full search)"
                     : "");
}

static void print_counts(FILE *out, const struct vt_info *info)
{
    const struct vt_trace_facts *facts = &info->facts;

    put_line(out, "complete", "%s", facts->ended_text);
    put_line(out, "lost", "%s events and %s definitions dropped, %" PRIu64 " bytes of chunks unreadable",
             VT_COUNT(facts->dropped_events), VT_COUNT(facts->dropped_definitions), facts->damaged_bytes);
    put_line(out, "recovered",
             "%s events from the live buffer, %s unfinished records, %" PRIu64 " stacks missing",
             VT_COUNT(facts->ring_events), VT_COUNT(facts->unfinished_records), facts->missing_stacks);
    if (facts->events_after_end)
        put_line(out, "after the end", "%s events after recording %s are missing",
                 VT_COUNT(facts->events_after_end), facts->stopped ? "stopped" : "ended");
    if (facts->events_without_stack)
        put_line(out, "without stack", "%s events: the stack table is full",
                 VT_COUNT(facts->events_without_stack));
    if (facts->native_walks_cut)
        put_line(out, "cut stacks", "%s walks ended early: libunwind had not been asked for a rule yet",
                 VT_COUNT(facts->native_walks_cut));
    if (facts->paused_events)
        put_line(out, "paused", "%s, %s events without stacks", VT_DURATION(facts->paused_ns),
                 VT_COUNT(facts->paused_events));
    put_line(out, "consistency",
             "%" PRIu64 " unknown frees, %" PRIu64 " duplicate allocations, %" PRIu64 " totals that differ",
             info->unknown_frees, info->doubled_allocations, info->total_mismatches);
    if (facts->omitted_events)
        put_line(out, "not read", "%s events one by one; totals are compared at the others",
                 VT_COUNT(facts->omitted_events));
    put_inspections(out, info);
    put_line(out, "steps", "%u", info->step_count);
    put_line(out, "events", "%s", VT_COUNT(facts->event_count));
    if (!facts->event_count)
        return;
    fprintf(out, "\n%-18s%12s%12s%12s%12s\n", "", "driver", "runtime", "framework", "other");
    for (size_t i = 0; i < info->kind_count; i++) {
        const uint64_t *layers = info->kinds[i].layers;

        fprintf(out, "  %-16s", info->kinds[i].kind);
        for (size_t k = 0; k < VT_LAYERS; k++)
            fprintf(out, "%12" PRIu64, layers[(k + 1) % VT_LAYERS]); /* those without a layer come last */
        fputc('\n', out);
    }
}

void vt_text_info(const struct vt_info *info, FILE *out)
{
    print_process(out, info);
    print_counts(out, info);
}

/* ---- One event ---- */

static void put_frame(const struct vt_frame *frame, FILE *out)
{
    vt_put_clean(frame->function, out);
    if (frame->file[0]) {
        fputs(" (", out);
        vt_put_clean(frame->file, out);
        fprintf(out, ":%d)", frame->line);
    } else if (frame->module[0]) {
        fputs(" (", out);
        vt_put_clean(basename(frame->module), out);
        fputc(')', out);
    }
}

static void put_names(const struct vt_event_facts *event, FILE *out)
{
    if (event->names.name) {
        fputs(" '", out);
        vt_put_clean(event->names.name, out);
        fputc('\'', out);
    }
    if (event->names.function) {
        fputc(' ', out);
        vt_put_clean(event->names.function, out);
    }
    if (event->names.label) {
        fputs(" in ", out);
        vt_put_clean(event->names.label, out);
    }
    for (size_t i = 0; i < event->flag_count; i++)
        fprintf(out, " %s", event->flags[i]);
    if (event->names.thread)
        fprintf(out, " thread %u", event->names.thread);
}

void vt_text_event(const struct vt_event_facts *event, FILE *out)
{
    fprintf(out, "%u %.6f s %s %s gpu %d", event->index, (double)event->t_ns / 1e9, event->kind, event->layer,
            event->device_index);
    if (event->address)
        fprintf(out, " %s", event->address_text);
    if (event->is_change)
        fprintf(out, " %+" PRId64 " B", event->change_bytes);
    else if (event->bytes)
        fprintf(out, " %" PRIu64 " B", event->bytes);
    put_names(event, out);
    if (event->has_at) {
        fputs(" at ", out);
        put_frame(&event->at, out);
    }
    for (size_t i = 0; i < event->frame_count; i++) {
        fputs("\n    ", out);
        put_frame(&event->frames[i], out);
    }
    fputc('\n', out);
}
