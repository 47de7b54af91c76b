/* `steps --json`: every step of every device. */
#include "view/json/json.h"
#include "report/parts.h"
#include "diagnose/steps.h"

#include <errno.h>

static void add_state(cJSON *object, const char *name, const struct vt_report *report,
                      const struct vt_step_state *state)
{
    cJSON *added = vt_json_object(object, name), *categories;

    vt_json_number(added, "t_ns", vt_event_time(report->trace, state->event_index));
    vt_json_number(added, "event", state->event_index);
    vt_json_text(added, "phase", vt_phase_name(vt_span_at(report->attribution, state->event_index)->phase));
    vt_json_number(added, "used_bytes", state->used_bytes);
    vt_json_number(added, "block_bytes", state->sums.counts.block_bytes);
    vt_json_number(added, "driver_bytes", state->sums.counts.driver_bytes);
    categories = vt_json_object(added, "categories");
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_HOST_PINNED)
            vt_json_number(categories, vt_category_name(c), state->sums.categories[c]);
}

static void add_step(cJSON *array, const struct vt_report *report, const struct vt_step *step)
{
    cJSON *object = vt_json_item(), *reasons;

    vt_json_number(object, "step", step->step);
    vt_json_number(object, "t_ns", step->t_ns);
    vt_json_number(object, "duration_ns", step->duration_ns);
    vt_json_number(object, "first_event", step->first_event);
    vt_json_number(object, "last_event", step->last_event);
    add_state(object, "peak", report, &step->peak);
    add_state(object, "end", report, &step->end);
    vt_json_change(object, "change_bytes", step->before_bytes, step->end.used_bytes);
    reasons = vt_json_array(object, "stands_out");
    if (step->large)
        vt_json_append_text(reasons, "peak");
    if (step->slow)
        vt_json_append_text(reasons, "time");
    vt_json_append(array, object);
}

static int write_json(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.steps/1"), *devices;
    int result = 0;

    vt_json_trace(vt_json_object(root, "trace"), report->trace);
    devices = vt_json_array(root, "devices");
    for (size_t i = 0; !result && i < report->device_count; i++) {
        const struct vt_device_report *device = &report->devices[i];
        struct vt_steps steps;
        cJSON *object, *array;

        result = vt_steps_make(report, device, &steps);
        if (result)
            break;
        object = vt_json_item();
        vt_json_integer(object, "index", device->index);
        vt_json_text(object, "name", device->name ? device->name : "");
        vt_json_number(object, "median_peak_bytes", steps.median_peak_bytes);
        vt_json_number(object, "median_duration_ns", steps.median_ns);
        array = vt_json_array(object, "steps");
        for (size_t k = 0; k < steps.count; k++)
            add_step(array, report, &steps.items[k]);
        vt_json_append(devices, object);
        vt_steps_free(&steps);
    }
    return vt_json_end(root, result, style->compact, out);
}

const struct vt_view vt_view_steps_json = {"json", write_json};
