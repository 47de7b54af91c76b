/* A report in memory: facts, marks, failed requests, and for each device its moments, groups and timeline.
 * */
#include "report/report.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/progress.h"
#include "base/task.h"
#include "report/blocks.h"
#include "report/explanations.h"
#include "report/group_table.h"
#include "report/groups.h"
#include "report/host_memory.h"
#include "report/identities.h"
#include "report/instants.h"
#include "report/moments.h"
#include "report/oom_events.h"
#include "trace/digest_events.h"
#include "trace/reading_plan.h"
#include "trace/redact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A longer range shows the moments of chains that are read whole. */
#define WHOLE_RANGE_EVENTS (UINT64_C(1) << 23)

/* Groups of the instants that are wanted, blocks and the explanation. */
static void describe_device(struct vt_report *report, const struct vt_report_options *options,
                            struct vt_grouper *grouper, struct vt_device_report *device)
{
    struct vt_instant *instants[] = {&device->peak, &device->end, &device->at};
    unsigned groups = options->groups ? options->groups : (1u << VT_BY_COUNT) - 1;

    for (int i = 0; i < 3; i++)
        if (instants[i]->state.present && (!options->shown_only || instants[i] == device->shown))
            vt_group_instant(grouper, device->index, groups, instants[i]);
    if (options->blocks)
        vt_list_blocks(report, device->index, device->at.state.present ? &device->at : &device->peak);
    if (options->explain)
        vt_explain(report, options->explain, device);
}

/* The moments that a report is about, and where to say why there are none. */
struct wanted {
    const struct vt_report_options *options;
    const struct vt_moment *at; /* NULL = none */
    struct vt_range range;
    struct vt_error_text reason;
};

/* A timeline is made while the instants are described. */
struct timeline_work {
    const struct vt_report *report;
    const struct wanted *wanted;
    struct vt_device_report *device;
    char error[256];
};

static int make_timeline(void *context)
{
    struct timeline_work *work = context;
    const struct vt_report_options *options = work->wanted->options;
    size_t columns = options->timeline_columns ? options->timeline_columns : VT_TIMELINE_COLUMNS;

    return vt_timeline_make(work->report, &work->wanted->range, options->axis, columns, work->device,
                            (struct vt_error_text){work->error, sizeof work->error});
}

static int make_device(struct vt_report *report, const struct wanted *wanted, struct vt_grouper *grouper,
                       struct vt_device_report *device)
{
    const struct vt_report_options *options = wanted->options;
    const struct vt_trace_device *gpu = vt_trace_device_of(report->trace, device->index);
    struct timeline_work work = {.report = report, .wanted = wanted, .device = device};
    struct vt_task timeline = {0};
    int result;

    device->name = gpu ? gpu->name : "";
    device->total_bytes = gpu ? gpu->total_bytes : 0;
    vt_walk_device(report, wanted->at, device);
    if (options->timeline_columns != VT_NO_TIMELINE)
        vt_task_begin(&timeline, make_timeline, &work);
    device->shown = device->at.state.present ? &device->at : &device->peak;
    vt_free_near(report->trace, device->shown->state.event_index, device->index, &device->card_free_bytes,
                 &device->card_total_bytes);
    describe_device(report, options, grouper, device);
    result = vt_task_end(&timeline);
    return result ? vt_fail(wanted->reason, "%s", work.error) : 0;
}

bool vt_held_memory(const struct vt_report *report, int device_index)
{
    const struct vt_replay *replay = report->attribution->replay;

    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].device_index == device_index)
            return true;
    return false;
}

/* A device is reported if it ever held memory, or if it is requested. */
static bool is_wanted(const struct vt_report *report, const struct vt_report_options *options,
                      int device_index)
{
    return options->device_index >= 0 ? device_index == options->device_index
                                      : vt_held_memory(report, device_index);
}

static int known_devices(const struct vt_report *report)
{
    int count = report->attribution->replay->device_count;

    for (size_t i = 0; i < report->trace->device_count; i++)
        if (report->trace->devices[i].index >= count)
            count = report->trace->devices[i].index + 1;
    return count < (int)VT_MAX_DEVICES ? count : (int)VT_MAX_DEVICES;
}

static int make_devices(struct vt_report *report, const struct wanted *wanted)
{
    struct vt_grouper *grouper = vt_grouper_make(report, wanted->options->depth);
    int count = known_devices(report), result = 0;

    report->devices = vt_allocate_zeros((size_t)count + 1, sizeof *report->devices);
    for (int i = 0; !result && i < count; i++) {
        if (!is_wanted(report, wanted->options, i))
            continue;
        vt_progress_tell(VT_WORK_REPORT, (uint64_t)i, 2 * (uint64_t)count);
        report->devices[report->device_count].index = i;
        result = make_device(report, wanted, grouper, &report->devices[report->device_count++]);
    }
    vt_host_memory_find(report, grouper);
    vt_grouper_free(grouper);
    return result;
}

static uint64_t duration_of(const struct vt_trace *trace)
{
    uint64_t duration = vt_since_start(trace, trace->header.end_monotonic_ns);
    uint64_t last = trace->event_count ? vt_event_time(trace, (uint32_t)trace->event_count - 1) : 0;

    return duration > last ? duration : last;
}

const char *vt_by_name(unsigned by)
{
    static const char *const names[VT_BY_CHOICES] = {"category", "module", "kind",  "owner", "line",
                                                     "stack",    "op",     "block", "holder"};

    return by < VT_BY_CHOICES ? names[by] : "?";
}

#define SIMULATED "simulated: " /* the mark of a dry run */

static void list_marks(struct vt_report *report)
{
    const struct vt_trace *trace = report->trace;
    size_t count = 0;

    for (size_t i = 0; i < trace->rare_event_count; i++)
        count += trace->events[trace->rare_events[i]].kind == VT_EVENT_MARK;
    report->marks = vt_allocate_zeros(count + 1, sizeof *report->marks);
    for (size_t k = 0; k < trace->rare_event_count; k++) {
        const uint32_t i = trace->rare_events[k];
        const char *name;

        if (trace->events[i].kind != VT_EVENT_MARK)
            continue;
        name = vt_trace_string(trace, trace->events[i].detail);
        report->marks[report->mark_count++] =
            (struct vt_mark){.name = name ? name : "", .t_ns = vt_event_time(trace, i), .event_index = i};
        if (name && !strncmp(name, SIMULATED, strlen(SIMULATED)))
            report->facts.simulated = name + strlen(SIMULATED);
        if (name && !strncmp(name, VT_ENDED_BY, strlen(VT_ENDED_BY)))
            report->facts.ended_by = name + strlen(VT_ENDED_BY);
    }
}

static void list_step_starts(struct vt_report *report)
{
    const struct vt_attribution *attribution = report->attribution;
    uint32_t last = 0;

    report->step_starts = vt_allocate_zeros(attribution->span_count + 1, sizeof *report->step_starts);
    for (size_t i = 0; i < attribution->span_count; i++) {
        const struct vt_span *span = &attribution->spans[i];

        if (span->step <= last)
            continue;
        last = span->step;
        report->step_starts[report->step_start_count++] =
            (struct vt_step_start){.step = last,
                                   .event_index = span->first_event,
                                   .t_ns = vt_event_time(report->trace, span->first_event)};
    }
    for (size_t id = 0; id < report->trace->stack_count && !report->has_operators; id++)
        report->has_operators = vt_operator_of(attribution, (uint32_t)id) != NULL;
}

/* Everything that moments are found by, and the requested moments. */
static int find_moments(const struct vt_attribution *attribution, struct vt_report *report,
                        struct wanted *wanted, struct vt_moment *at)
{
    const struct vt_report_options *options = wanted->options;
    int result;

    report->trace = attribution->trace;
    report->attribution = attribution;
    report->duration_ns = duration_of(report->trace);
    report->event_count = attribution->trace->event_count;
    report->allocation_count = attribution->replay->allocation_count;
    report->step_count = attribution->step_count;
    vt_trace_facts_read(report->trace, &report->facts);
    report->places = vt_places_make(report->trace);
    list_marks(report);
    list_step_starts(report);
    vt_find_refusals(report);
    result = vt_find_moment(report, options, at, wanted->reason);
    if (result)
        return result;
    wanted->at = report->has_at ? at : NULL;
    return vt_find_range(report, options, &wanted->range, wanted->reason);
}

/* ---- Gaps ---- */

/* Numbers of the events [first, end) that are kept in a gap, with those that are not. */
static struct vt_window gap_of(const struct vt_trace *trace, const struct vt_gap *gap)
{
    return (struct vt_window){.first = gap->first ? vt_trace_event_number(trace, gap->first - 1) + 1 : 0,
                              .end = gap->end < trace->event_count ? vt_trace_event_number(trace, gap->end)
                                                                   : trace->recorded_events};
}

static void list_gaps(struct vt_report *report)
{
    const struct vt_trace *trace = report->trace;

    report->gaps = vt_allocate_zeros(trace->gap_count + 1, sizeof *report->gaps);
    for (size_t i = 0; i < trace->gap_count; i++) {
        const struct vt_gap *gap = &trace->gaps[i];
        struct vt_window events = gap_of(trace, gap);

        report->gaps[report->gap_count++] = (struct vt_report_gap){
            .first_event = events.first,
            .end_event = events.end,
            .omitted_events = gap->omitted_events,
            .t_ns = gap->first ? vt_event_time(trace, gap->first - 1) : 0,
            .end_ns = gap->end < trace->event_count ? vt_event_time(trace, gap->end) : report->duration_ns};
    }
}

/* The events of a moment, up to the next that is there. */
static struct vt_window window_of(const struct vt_trace *trace, uint32_t first, uint32_t last)
{
    return (struct vt_window){.first = vt_trace_event_number(trace, first),
                              .end = (uint64_t)last + 1 < trace->event_count
                                         ? vt_trace_event_number(trace, last + 1)
                                         : trace->recorded_events};
}

/* ... and those of its step before it: what backward makes has its names from the forward code. */
static struct vt_window window_with_step(const struct vt_report *report, uint32_t first, uint32_t last)
{
    struct vt_window window = window_of(report->trace, first, last);
    const uint32_t step = vt_report_span(report, first)->step;

    for (size_t i = report->step_start_count; i-- > 0;) {
        const struct vt_step_start *start = &report->step_starts[i];
        uint64_t number = vt_trace_event_number(report->trace, start->event_index);

        if (start->step <= step && number < window.first && window.first - number < WHOLE_RANGE_EVENTS)
            window.first = number;
        if (start->step <= step)
            break;
    }
    return window;
}

static bool is_whole(const struct vt_trace *trace, const struct vt_window *window)
{
    for (size_t i = 0; i < trace->gap_count; i++) {
        struct vt_window gap = gap_of(trace, &trace->gaps[i]);

        if (gap.first < window->end && window->first < gap.end)
            return false;
    }
    return true;
}

static void need_window(const struct vt_trace *trace, struct vt_window window, struct vt_needs *needs)
{
    if (!is_whole(trace, &window) && needs->count < VT_NEEDS)
        needs->items[needs->count++] = window;
}

/* The moment with the most reserved is that of an event of the driver: they are all there, but not all that
 * was alive then. */
static void need_reserved(const struct vt_report *report, const struct vt_moment *at, struct vt_needs *needs)
{
    for (int i = 0; i < known_devices(report); i++) {
        struct vt_device_report device = {.index = i};

        if (!is_wanted(report, &(struct vt_report_options){.device_index = -1}, i))
            continue;
        vt_walk_device(report, at, &device);
        need_window(report->trace,
                    window_with_step(report, device.at.state.event_index, device.at.state.event_index),
                    needs);
    }
}

void vt_report_needs(const struct vt_attribution *attribution, const struct vt_report_options *options,
                     struct vt_needs *needs)
{
    struct vt_report *report = vt_allocate_zeros(1, sizeof *report);
    char error[512];
    struct wanted wanted = {.options = options, .reason = {error, sizeof error}};
    const struct vt_range *range = &wanted.range;
    struct vt_moment at;
    int result = find_moments(attribution, report, &wanted, &at); /* what is wrong, vt_report_make says */

    needs->count = 0;
    if (!result && wanted.at && at.reserved)
        need_reserved(report, &at, needs);
    else if (!result && wanted.at && !at.peak && !at.end)
        need_window(report->trace, window_with_step(report, at.first, at.last), needs);
    if (!result && (range->has_from || range->has_to)) {
        struct vt_window window = {.end = report->trace->recorded_events};

        if (range->has_from && !range->from.peak && !range->from.end)
            window.first = window_of(report->trace, range->from.first, range->from.last).first;
        if (range->has_to && !range->to.peak && !range->to.end)
            window.end = window_of(report->trace, range->to.first, range->to.last).end;
        if (window.end > window.first && window.end - window.first <= WHOLE_RANGE_EVENTS)
            need_window(report->trace, window, needs);
    }
    vt_report_free(report);
}

static void list_refusals(struct vt_report *report)
{
    const size_t shown = report->shown_refusal + 1, count = report->refusal_count,
                 first = shown > VT_LISTED_REFUSALS ? shown - VT_LISTED_REFUSALS : 0;

    report->listed_refusals = report->refusals + first;
    report->listed_refusal_count = count - first < VT_LISTED_REFUSALS ? count - first : VT_LISTED_REFUSALS;
}

int vt_report_make(const struct vt_attribution *attribution, const struct vt_report_options *options,
                   struct vt_report **made, char *error, size_t error_bytes)
{
    struct vt_report *report = vt_allocate_zeros(1, sizeof *report);
    struct wanted wanted = {.options = options, .reason = {error, error_bytes}};
    struct vt_moment at;
    int result = find_moments(attribution, report, &wanted, &at);

    *made = NULL;
    list_gaps(report);
    report->identities = vt_report_identities_make(attribution, &report->identity_count);
    if (!result && report->refusal_count) {
        vt_complete_refusal(report, &report->refusals[report->shown_refusal]);
        list_refusals(report);
    }
    if (!result && options->device_index >= known_devices(report))
        result = vt_fail(wanted.reason, "no device %d in the trace; the highest is %d", options->device_index,
                         known_devices(report) - 1);
    if (!result)
        result = make_devices(report, &wanted);
    if (result) {
        vt_report_free(report);
        return result;
    }
    *made = report;
    return 0;
}

struct vt_device_report *vt_report_device(const struct vt_report *report, int device_index)
{
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].index == device_index)
            return &report->devices[i];
    return NULL;
}

uint64_t vt_report_event_number(const struct vt_report *report, uint64_t event_index)
{
    return event_index < report->trace->event_count
               ? vt_trace_event_number(report->trace, (uint32_t)event_index)
               : event_index;
}

uint64_t vt_report_last_event_number(const struct vt_report *report, uint64_t event_index)
{
    const struct vt_trace *trace = report->trace;

    return trace->event_numbers && event_index < trace->event_count
               ? window_of(trace, (uint32_t)event_index, (uint32_t)event_index).end - 1
               : event_index;
}

static void free_instant(struct vt_instant *instant)
{
    for (int by = 0; by < VT_BY_COUNT; by++)
        vt_groups_free(&instant->groups[by]);
    free(instant->blocks);
}

static void free_leaks(struct vt_leaks *leaks)
{
    for (size_t i = 0; i < leaks->count; i++) {
        free(leaks->items[i].parts);
        free(leaks->items[i].kept);
    }
    free(leaks->items);
    free(leaks->remaining);
}

void vt_fragmentation_free(struct vt_fragmentation *fragmentation)
{
    for (uint32_t i = 0; i < fragmentation->advice_count; i++)
        free(fragmentation->advice[i]);
    free(fragmentation->segments);
    free(fragmentation->pins);
    free(fragmentation->blocks);
    free(fragmentation->holes);
    *fragmentation = (struct vt_fragmentation){0};
}

static void free_gpu_table(struct vt_gpu_table *table)
{
    free(table->rows);
    free(table->told);
    free(table->advices.items);
}

static void free_device(struct vt_device_report *device)
{
    for (size_t i = 0; i < device->advices.count; i++) {
        free(device->advices.items[i].savings.items);
        free(device->advices.items[i].same);
    }
    free_instant(&device->peak);
    free_instant(&device->end);
    free_instant(&device->at);
    free(device->explanation.reasons);
    vt_timeline_free(&device->timeline);
    free_leaks(&device->leaks);
    free(device->holders.rows);
    free(device->advices.items);
    vt_fragmentation_free(&device->fragmentation);
    free(device->graph_pools.items);
    free(device->steps.items);
    free_gpu_table(&device->card);
    free_gpu_table(&device->last_card);
    free(device->context_levels.items);
}

void vt_report_free(struct vt_report *report)
{
    if (!report)
        return;
    for (size_t i = 0; i < report->device_count; i++)
        free_device(&report->devices[i]);
    free(report->devices);
    vt_groups_free(&report->host.lines);
    vt_groups_free(&report->host.stacks);
    free(report->refusals);
    free(report->marks);
    free(report->gaps);
    free(report->identities);
    free(report->step_starts);
    free(report->bare_contexts);
    vt_fragmentation_free(&report->shortage.cache);
    free(report->shortage.freed);
    vt_places_free(report->places);
    free(report);
}
