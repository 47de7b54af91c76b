/* What is in a trace, as text. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "view/text/print.h"
#include "view/text/views.h"

static void put_line(FILE *out, const char *name, const char *text)
{
    fprintf(out, "%-14s", name);
    vt_put_clean(text, out);
    fputc('\n', out);
}

static void put_size(FILE *out, const struct vt_info *info)
{
    char file[32], disk[64] = "", ring[32], per_event[48] = "", text[256];

    vt_format_bytes(info->disk_bytes, ring);
    if (info->disk_bytes < info->file_bytes)
        snprintf(disk, sizeof disk, ", on the disk %s", ring);
    if (info->facts.event_count)
        snprintf(per_event, sizeof per_event, " (%.1f bytes per event)",
                 (double)info->disk_bytes / (double)info->facts.event_count);
    snprintf(text, sizeof text, "%s%s%s; ring of %s; format %u, written by %.31s",
             vt_format_bytes(info->file_bytes, file), disk, per_event,
             vt_format_bytes(info->ring_bytes, ring), info->format_version,
             info->program_version[0] ? info->program_version : "an unknown version");
    put_line(out, "size", text);
}

static void print_process(FILE *out, const struct vt_info *info)
{
    time_t start = (time_t)(info->facts.start_realtime_ns / 1000000000u);
    char bytes[32], when[64] = "", text[160];
    struct tm parts;

    put_line(out, "file", info->facts.path);
    put_size(out, info);
    put_line(out, "command", info->facts.command);
    put_line(out, "folder", info->working_folder ? info->working_folder : "");
    put_line(out, "executable", info->executable ? info->executable : "");
    snprintf(text, sizeof text, "pid %u, parent %u, on %.63s", info->facts.pid, info->parent_pid, info->host);
    put_line(out, "process", text);
    if (localtime_r(&start, &parts))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &parts);
    put_line(out, "began", when);
    if (info->python_version)
        snprintf(text, sizeof text, "%u.%u.%u%s", info->python_version >> 24,
                 info->python_version >> 16 & 0xff, info->python_version >> 8 & 0xff,
                 info->python_unsupported_minor ? " (not supported: its frames are not recorded)" : "");
    else
        snprintf(text, sizeof text, "none");
    put_line(out, "python", text);
    for (size_t i = 0; i < info->device_count; i++) {
        snprintf(text, sizeof text, "%d %.100s, %s", info->devices[i].index,
                 info->devices[i].name[0] ? info->devices[i].name : "unnamed",
                 info->devices[i].total_bytes ? vt_format_bytes(info->devices[i].total_bytes, bytes)
                                              : "size unknown");
        put_line(out, "device", text);
    }
}

/* Inspections of live objects, which gave names. */
static void put_inspections(FILE *out, const struct vt_info *info)
{
    char duration[32], a[32], text[512];
    int used;

    if (!info->inspection_count && !info->lost_inspections) {
        put_line(out, "looks", "none");
        return;
    }
    vt_format_duration(info->inspection_ns, duration);
    used = snprintf(text, sizeof text,
                    "%" PRIu64 " in %s, %" PRIu64 " not whole%s%.200s, %" PRIu64 " lost; %s tensors",
                    info->inspection_count, duration, info->failed_inspections, info->failure[0] ? ": " : "",
                    info->failure, info->lost_inspections, vt_format_count(info->tensors, a));
    if (info->homeless)
        used +=
            snprintf(text + used, sizeof text - (size_t)used, ", %" PRIu64 " in no block", info->homeless);
    if (info->misplaced)
        snprintf(text + used, sizeof text - (size_t)used, ", %" PRIu64 " that fit no block", info->misplaced);
    put_line(out, "looks", text);
}

static void print_counts(FILE *out, const struct vt_info *info)
{
    const struct vt_trace_facts *facts = &info->facts;
    char a[32], b[32], text[160];

    put_line(out, "complete", facts->ended_text);
    snprintf(text, sizeof text, "%s events and %s definitions dropped, %s of chunks unreadable",
             vt_format_count(facts->dropped_events, a), vt_format_count(facts->dropped_definitions, b),
             facts->damaged_bytes ? "some bytes" : "none");
    if (facts->damaged_bytes)
        snprintf(text, sizeof text,
                 "%s events and %s definitions dropped, %" PRIu64 " bytes of chunks unreadable", a, b,
                 facts->damaged_bytes);
    put_line(out, "lost", text);
    snprintf(text, sizeof text, "%s events, %s records unfinished, %" PRIu64 " stacks missing",
             vt_format_count(facts->ring_events, a), vt_format_count(facts->unfinished_records, b),
             facts->missing_stacks);
    put_line(out, "from the ring", text);
    if (facts->events_after_end) {
        snprintf(text, sizeof text, "%s events came once recording had %s, and are not here",
                 vt_format_count(facts->events_after_end, a), facts->stopped ? "stopped" : "ended");
        put_line(out, "after the end", text);
    }
    if (facts->events_without_stack) {
        snprintf(text, sizeof text, "%s events: more different stacks came than are kept",
                 vt_format_count(facts->events_without_stack, a));
        put_line(out, "without stack", text);
    }
    snprintf(text, sizeof text,
             "%" PRIu64 " unknown frees, %" PRIu64 " doubled allocations, %" PRIu64 " totals that differ",
             info->unknown_frees, info->doubled_allocations, info->total_mismatches);
    put_line(out, "disagreements", text);
    put_inspections(out, info);
    snprintf(text, sizeof text, "%u", info->step_count);
    put_line(out, "steps", text);
    fprintf(out, "%-14s%s\n", "events", vt_format_count(facts->event_count, a));
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

int vt_text_info(const struct vt_info *info, FILE *out)
{
    print_process(out, info);
    print_counts(out, info);
    return ferror(out) ? -EIO : 0;
}
