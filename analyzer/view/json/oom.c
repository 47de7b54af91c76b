/* Out of memory as JSON: "vramtrace.oom/1". */
#include "view/json/json.h"
#include "diagnose/oom.h"
#include "report/parts.h"

#include <errno.h>

static void add_asker(cJSON *object, const struct vt_report *report, const struct vt_refusal *refusal)
{
    cJSON *asker = vt_json_object(object, "asked_by");
    uint32_t stack_id = refusal->asker_stack;
    const char *operator_name = vt_operator_of(report->attribution, stack_id);
    const char *module = refusal->asker_module;
    char name[256];

    vt_asker_name(report, refusal, name, sizeof name);
    vt_json_text(asker, "name", name);
    vt_json_place(asker, report->trace, stack_id);
    vt_json_text(asker, "operator", operator_name ? operator_name : "");
    vt_json_text(asker, "module", module ? module : "");
}

void vt_json_refusals(cJSON *root, const struct vt_report *report)
{
    cJSON *array = vt_json_array(root, "out_of_memory");

    for (size_t i = 0; i < report->refusal_count; i++) {
        const struct vt_refusal *refusal = &report->refusals[i];
        cJSON *object = vt_json_item();

        vt_json_number(object, "t_ns", refusal->t_ns);
        vt_json_number(object, "event", refusal->event_index);
        vt_json_integer(object, "device", refusal->device_index);
        vt_json_text(object, "layer", vt_layer_name(refusal->layer));
        vt_json_number(object, "step", refusal->step);
        vt_json_text(object, "phase", vt_phase_name(refusal->phase));
        vt_json_number(object, "asked_bytes", refusal->asked_bytes);
        if (refusal->free_told)
            vt_json_number(object, "free_bytes", refusal->free_bytes);
        vt_json_number(object, "driver_tries", refusal->driver_tries);
        vt_json_bool(object, "ends_run", refusal->ends_run);
        add_asker(object, report, refusal);
        vt_json_put(object, "stack",
                    vt_json_stack(report->trace, report->trace->events[refusal->event_index].stack_id));
        vt_json_append(array, object);
    }
}

static void add_freed(cJSON *last, const struct vt_report *report, const struct vt_shortage *shortage,
                      int top)
{
    cJSON *array = vt_json_array(last, "freed_next");

    for (size_t i = 0; i < shortage->freed_count && (top <= 0 || i < (size_t)top); i++) {
        const struct vt_freed_next *freed = &shortage->freed[i];
        const struct vt_allocation *block = &report->attribution->replay->allocations[freed->allocation];
        const struct vt_label *label = &report->attribution->labels[freed->allocation];
        const char *module = vt_shown_module(label);
        cJSON *object = vt_json_item();

        vt_json_number(object, "bytes", freed->bytes);
        vt_json_number(object, "blocks", freed->blocks);
        vt_json_text(object, "category", vt_category_name(label->category));
        vt_json_text(object, "owner", label->owner ? label->owner : "");
        vt_json_text(object, "module", module ? module : "");
        vt_json_line(object, report->trace, vt_telling_stack(report->attribution, block));
        vt_json_text(object, "phase", vt_phase_name(freed->phase));
        vt_json_number(object, "after_events", freed->after_events);
        vt_json_append(array, object);
    }
    vt_json_bool(last, "freed_next_happened", shortage->freed_is_told);
}

static void add_cache(cJSON *last, const struct vt_fragmentation *cache)
{
    cJSON *object = vt_json_object(last, "cache"), *holes;

    vt_json_number(object, "bytes", cache->hole_bytes);
    vt_json_number(object, "largest_hole_bytes", cache->largest_hole_bytes);
    vt_json_number(object, "empty_bytes", cache->empty_bytes);
    holes = vt_json_array(object, "holes");
    for (size_t i = 0; i < cache->hole_count; i++) {
        cJSON *hole = vt_json_item();

        vt_json_number(hole, "address", cache->holes[i].address);
        vt_json_number(hole, "bytes", cache->holes[i].bytes);
        vt_json_append(holes, hole);
    }
}

/* "last", or with --at "chosen", which need not be it. */
static int add_shown(cJSON *root, const struct vt_report *report, int top)
{
    const struct vt_refusal *refusal = report->refusals + report->shown_refusal;
    struct vt_shortage shortage;
    cJSON *last, *card, *categories;
    int result = vt_shortage_find(report, &shortage);

    if (result || !shortage.device)
        return result;
    last = vt_json_object(root, report->shown_refusal + 1 == report->refusal_count ? "last" : "chosen");
    vt_json_number(last, "number", report->shown_refusal + 1);
    if (shortage.missing_bytes)
        vt_json_number(last, "missing_bytes", shortage.missing_bytes);
    card = vt_json_object(last, "card");
    if (refusal->free_known) {
        vt_json_number(card, "total_bytes", refusal->total_bytes);
        vt_json_number(card, "free_bytes", refusal->free_bytes);
        vt_json_bool(card, "free_told", refusal->free_told);
        vt_json_number(card, "other_bytes", shortage.other_bytes);
    }
    vt_json_number(card, "driver_bytes", refusal->driver_bytes);
    categories = vt_json_object(card, "categories");
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_HOST_PINNED)
            vt_json_number(categories, vt_category_name(c), refusal->categories[c]);
    add_cache(last, &shortage.cache);
    add_freed(last, report, &shortage, top);
    vt_json_view(last, "at", report, &shortage.device->at, top);
    vt_shortage_free(&shortage);
    return 0;
}

static int write_json_oom(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.oom/1"), *survived;
    int result = 0;

    vt_json_trace(vt_json_object(root, "trace"), report->trace);
    vt_json_refusals(root, report);
    survived = vt_json_object(root, "survived");
    vt_json_number(survived, "times", report->survived_count);
    vt_json_number(survived, "largest_bytes", report->survived_bytes);
    if (report->refusal_count)
        result = add_shown(root, report, style->top);
    return vt_json_end(root, result, style->compact, out);
}

const struct vt_view vt_view_json_oom = {"json", write_json_oom};
