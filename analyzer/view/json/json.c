/* The report as JSON: a contract (see the manual page), fields are added but never changed. */
#include "view/json/json.h"
#include "view/text/leaks.h"
#include "report/module_groups.h"
#include "base/format.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES 512

cJSON *vt_json_frame(const struct vt_frame *frame)
{
    cJSON *object = vt_json_item();

    vt_json_text(object, "kind", frame->kind == VT_FRAME_PYTHON ? "python" : "native");
    vt_json_text(object, "function", frame->function);
    vt_json_text(object, "file", frame->file);
    vt_json_number(object, "line", frame->line > 0 ? (uint64_t)frame->line : 0);
    vt_json_text(object, "module", frame->module);
    return object;
}

const char *vt_json_line(cJSON *object, const struct vt_trace *trace, uint32_t stack_id)
{
    struct vt_frame frame;
    bool known = vt_trace_user_frame(trace, stack_id, &frame);

    vt_json_text(object, "file", known ? frame.file : "");
    vt_json_number(object, "line", known && frame.line > 0 ? (uint64_t)frame.line : 0);
    return known ? frame.function : "";
}

void vt_json_place(cJSON *object, const struct vt_trace *trace, uint32_t stack_id)
{
    vt_json_text(object, "function", vt_json_line(object, trace, stack_id));
}

cJSON *vt_json_stack(const struct vt_trace *trace, uint32_t stack_id)
{
    struct vt_frame frames[FRAMES];
    size_t count = vt_trace_frames(trace, stack_id, frames, FRAMES);
    cJSON *array = vt_json_list();

    for (size_t i = 0; i < count && i < FRAMES; i++)
        vt_json_append(array, vt_json_frame(&frames[i]));
    return array;
}

static void add_categories(cJSON *object, const uint64_t categories[VT_CATEGORY_COUNT], bool all)
{
    cJSON *added = vt_json_object(object, "categories");

    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_HOST_PINNED && (all || categories[c]))
            vt_json_number(added, vt_category_name(c), categories[c]);
}

/* What is not known by name has no role. All of a group is of one category. */
static void add_owner(cJSON *object, const struct vt_attribution *attribution, const struct vt_group *group)
{
    const struct vt_owner *owner = group->owner;
    unsigned category = 0;

    while (category < VT_CATEGORY_UNKNOWN && !group->categories[category])
        category++;
    vt_json_name(object, "role", owner ? owner->role : NULL);
    vt_json_text(object, "category", vt_category_name(category));
    vt_json_name(object, "module", group->module);
    vt_json_name(object, "class", group->module ? vt_module_class(attribution, group->module) : NULL);
    vt_json_name(object, "dtype", owner ? owner->dtype : NULL);
    if (owner)
        vt_json_text(object, "shape", owner->shape);
    else
        vt_json_null(object, "shape");
    vt_json_number(object, "tensor_bytes", group->tensor_bytes);
    vt_json_text(object, "evidence", vt_evidence_name(group->evidence));
}

static void add_groups(cJSON *view, const char *name, const struct vt_report *report,
                       const struct vt_groups *groups, enum vt_by by, int top)
{
    cJSON *array = vt_json_array(view, name);

    for (size_t i = 0; i < groups->count && (top <= 0 || i < (size_t)top); i++) {
        const struct vt_group *group = &groups->items[i];
        cJSON *object = vt_json_item();

        vt_json_text(object, "name", group->name);
        vt_json_number(object, "bytes", group->bytes);
        vt_json_number(object, "blocks", group->blocks);
        if (by == VT_BY_LINE) {
            vt_json_text(object, "file", group->file ? group->file : "");
            vt_json_number(object, "line", group->line > 0 ? (uint64_t)group->line : 0);
            vt_json_text(object, "function", group->function ? group->function : "");
            vt_json_text(object, "phase", vt_phase_name(group->phase));
        }
        if (by == VT_BY_OWNER)
            add_owner(object, report->attribution, group);
        if (by == VT_BY_MODULE) {
            vt_json_name(object, "class", group->class_name);
            vt_json_number(object, "depth", vt_module_levels(group->name));
        }
        if (by == VT_BY_KIND)
            vt_json_number(object, "modules", group->modules);
        if (by == VT_BY_MODULE || by == VT_BY_KIND)
            vt_json_number(object, "temporary_peak_bytes", group->temporary_peak_bytes);
        add_categories(object, group->categories, false);
        if (by == VT_BY_STACK)
            vt_json_put(object, "stack", vt_json_stack(report->trace, group->stack_id));
        if (by == VT_BY_STACK && group->forward_stack_id)
            vt_json_put(object, "forward_stack", vt_json_stack(report->trace, group->forward_stack_id));
        vt_json_append(array, object);
    }
}

void vt_json_view(cJSON *device, const char *name, const struct vt_report *report,
                  const struct vt_instant *instant, int top)
{
    static const struct {
        const char *name;
        enum vt_by by;
    } tables[] = {{"modules", VT_BY_MODULE}, {"kinds", VT_BY_KIND},   {"owners", VT_BY_OWNER},
                  {"lines", VT_BY_LINE},     {"stacks", VT_BY_STACK}, {"ops", VT_BY_OP}};
    cJSON *view = vt_json_object(device, name), *evidence;

    vt_json_number(view, "t_ns", instant->t_ns);
    vt_json_number(view, "step", instant->step);
    vt_json_text(view, "phase", vt_phase_name(instant->phase));
    vt_json_number(view, "event", instant->event_index);
    vt_json_number(view, "driver_bytes", instant->counts.driver_bytes);
    vt_json_number(view, "segment_bytes", instant->counts.segment_bytes);
    vt_json_number(view, "block_bytes", instant->counts.block_bytes);
    vt_json_number(view, "rounding_bytes", instant->rounding_bytes);
    vt_json_number(view, "context_bytes", instant->counts.context_bytes);
    vt_json_number(view, "host_pinned_bytes", instant->counts.host_pinned_bytes);
    add_categories(view, instant->categories, true);
    evidence = vt_json_object(view, "evidence");
    vt_json_number(evidence, "exact", instant->evidence[VT_EVIDENCE_EXACT]);
    vt_json_number(evidence, "strong", instant->evidence[VT_EVIDENCE_STRONG]);
    vt_json_number(evidence, "weak", instant->evidence[VT_EVIDENCE_WEAK]);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        add_groups(view, tables[i].name, report, &instant->groups[tables[i].by], tables[i].by, top);
    if (instant->blocks)
        vt_json_blocks(view, report, instant, top);
}

void vt_json_moment(cJSON *device, const char *name, const struct vt_instant *instant)
{
    cJSON *object = vt_json_object(device, name);

    vt_json_number(object, "t_ns", instant->t_ns);
    vt_json_number(object, "event", instant->event_index);
    vt_json_number(object, "step", instant->step);
    vt_json_text(object, "phase", vt_phase_name(instant->phase));
    vt_json_number(object, "driver_bytes", instant->counts.driver_bytes);
    vt_json_number(object, "block_bytes", instant->counts.block_bytes);
    vt_json_number(object, "used_bytes", vt_used_bytes(instant->categories));
    add_categories(object, instant->categories, true);
}

static void add_timeline(cJSON *device, const struct vt_timeline *timeline)
{
    cJSON *object = vt_json_object(device, "timeline"), *categories, *phases;
    size_t count = timeline->columns;

    vt_json_numbers(object, "t_ns", timeline->t_ns, count, sizeof *timeline->t_ns, 8);
    vt_json_numbers(object, "driver_bytes", timeline->driver_bytes, count, sizeof *timeline->driver_bytes, 8);
    vt_json_numbers(object, "step", timeline->step, count, sizeof *timeline->step, 4);
    phases = vt_json_array(object, "phase");
    for (size_t i = 0; i < count; i++)
        vt_json_append_text(phases, vt_phase_name(timeline->phase[i]));
    categories = vt_json_object(object, "categories");
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_HOST_PINNED)
            vt_json_numbers(categories, vt_category_name(c), &timeline->categories[0][c], count,
                            sizeof *timeline->categories, 8);
}

static const char *state_name(const struct vt_trace *trace)
{
    static const char *const names[] = {"unknown", "recording", "complete", "stopped"};

    return names[trace->header.state <= VT_STATE_STOPPED ? trace->header.state : 0];
}

void vt_json_trace(cJSON *object, const struct vt_trace *trace)
{
    vt_json_text(object, "file", trace->path);
    vt_json_number(object, "pid", trace->header.pid);
    vt_json_text(object, "command", trace->command ? trace->command : "");
    vt_json_bool(object, "complete", trace->complete);
    vt_json_number(object, "events", trace->event_count);
    vt_json_number(object, "dropped", trace->header.dropped);
    vt_json_number(object, "dropped_definitions", trace->header.dropped_definitions);
    vt_json_number(object, "events_after_end", trace->header.after_end);
    vt_json_number(object, "events_without_stack", trace->header.without_stack);
    vt_json_text(object, "state", state_name(trace));
    vt_json_bool(object, "truncated", trace->truncated);
    vt_json_number(object, "damaged_bytes", trace->damaged_bytes);
    vt_json_number(object, "events_from_ring", trace->ring_events);
    vt_json_number(object, "unfinished_records", trace->unfinished_records);
    vt_json_number(object, "missing_stacks", trace->missing_stacks);
    vt_json_number(object, "start_realtime_ns", trace->header.start_realtime_ns);
}

static void add_marks(cJSON *root, const struct vt_trace *trace)
{
    cJSON *marks = vt_json_array(root, "marks");

    for (size_t i = 0; i < trace->event_count; i++) {
        const char *name;
        cJSON *mark;

        if (trace->events[i].kind != VT_EVENT_MARK)
            continue;
        name = vt_trace_string(trace, trace->events[i].detail);
        mark = vt_json_item();
        vt_json_text(mark, "name", name ? name : "");
        vt_json_number(mark, "t_ns", vt_event_time(trace, (uint32_t)i));
        vt_json_number(mark, "event", i);
        vt_json_append(marks, mark);
    }
}

static void add_device_name(cJSON *object, const struct vt_device_report *device)
{
    vt_json_integer(object, "index", device->index);
    vt_json_text(object, "name", device->name);
    vt_json_number(object, "total_bytes", device->total_bytes);
}

static void add_device(cJSON *devices, const struct vt_report *report, const struct vt_device_report *device,
                       int top)
{
    cJSON *object = vt_json_item();

    add_device_name(object, device);
    vt_json_view(object, "peak", report, &device->peak, top);
    vt_json_view(object, "end", report, &device->end, top);
    if (device->at.present)
        vt_json_view(object, "at", report, &device->at, top);
    if (device->explanation.what)
        vt_json_explanation(object, report, &device->explanation);
    add_timeline(object, &device->timeline);
    vt_json_leaks(object, report, &device->leaks);
    vt_json_advice(object, report, device);
    vt_json_append(devices, object);
}

static int write_json(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.report/1"), *devices;

    vt_json_trace(vt_json_object(root, "trace"), report->trace);
    vt_json_number(root, "duration_ns", report->duration_ns);
    vt_json_number(root, "steps", report->attribution->step_count);
    devices = vt_json_array(root, "devices");
    for (size_t i = 0; i < report->device_count; i++)
        add_device(devices, report, &report->devices[i], style->top);
    add_marks(root, report->trace);
    vt_json_refusals(root, report);
    return vt_json_end(root, 0, style->compact, out);
}

const struct vt_view vt_view_json = {"json", write_json};

static int write_timeline(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.timeline/1"), *devices;

    vt_json_trace(vt_json_object(root, "trace"), report->trace);
    vt_json_number(root, "duration_ns", report->duration_ns);
    vt_json_number(root, "steps", report->attribution->step_count);
    devices = vt_json_array(root, "devices");
    for (size_t i = 0; i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];
        cJSON *object = vt_json_item();

        add_device_name(object, device);
        vt_json_moment(object, "peak", &device->peak);
        vt_json_moment(object, "end", &device->end);
        if (device->at.present)
            vt_json_moment(object, "at", &device->at);
        add_timeline(object, &device->timeline);
        vt_json_append(devices, object);
    }
    add_marks(root, report->trace);
    return vt_json_end(root, 0, style->compact, out);
}

const struct vt_view vt_view_timeline_json = {"timeline-json", write_timeline};
