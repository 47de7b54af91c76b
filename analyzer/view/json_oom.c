/* Out of memory as JSON: "vramtrace.oom/1". */
#include "view/json.h"
#include "view/oom.h"
#include "view/report_parts.h"

#include <errno.h>

static void add_asker(cJSON *object, const struct vt_report *report, const struct vt_refusal *refusal)
{
    cJSON *asker = cJSON_AddObjectToObject(object, "asked_by");
    uint32_t stack_id = refusal->asker_stack;
    const char *operator_name = vt_operator_of(report->attribution, stack_id);
    const char *module = refusal->asker_module;
    char name[256];

    vt_asker_name(report, refusal, name, sizeof name);
    cJSON_AddStringToObject(asker, "name", name);
    vt_json_place(asker, report->trace, stack_id);
    cJSON_AddStringToObject(asker, "operator", operator_name ? operator_name : "");
    cJSON_AddStringToObject(asker, "module", module ? module : "");
}

void vt_json_refusals(cJSON *root, const struct vt_report *report)
{
    cJSON *array = cJSON_AddArrayToObject(root, "out_of_memory");

    for (size_t i = 0; i < report->refusal_count; i++) {
        const struct vt_refusal *refusal = &report->refusals[i];
        cJSON *object = cJSON_CreateObject();

        vt_json_number(object, "t_ns", refusal->t_ns);
        vt_json_number(object, "event", refusal->event_index);
        cJSON_AddNumberToObject(object, "device", refusal->device_index);
        cJSON_AddStringToObject(object, "layer", vt_layer_name(refusal->layer));
        vt_json_number(object, "step", refusal->step);
        cJSON_AddStringToObject(object, "phase", vt_phase_name(refusal->phase));
        vt_json_number(object, "asked_bytes", refusal->asked_bytes);
        if (refusal->free_told)
            vt_json_number(object, "free_bytes", refusal->free_bytes);
        vt_json_number(object, "driver_tries", refusal->driver_tries);
        cJSON_AddBoolToObject(object, "ends_run", refusal->ends_run);
        add_asker(object, report, refusal);
        cJSON_AddItemToObject(
            object, "stack",
            vt_json_stack(report->trace, report->trace->events[refusal->event_index].stack_id));
        cJSON_AddItemToArray(array, object);
    }
}

static void add_freed(cJSON *last, const struct vt_report *report, const struct vt_shortage *shortage,
                      int top)
{
    cJSON *array = cJSON_AddArrayToObject(last, "freed_next");

    for (size_t i = 0; i < shortage->freed_count && (top <= 0 || i < (size_t)top); i++) {
        const struct vt_freed_next *freed = &shortage->freed[i];
        const struct vt_allocation *block = &report->attribution->replay->allocations[freed->allocation];
        const char *module = vt_shown_module(block);
        cJSON *object = cJSON_CreateObject();

        vt_json_number(object, "bytes", freed->bytes);
        vt_json_number(object, "blocks", freed->blocks);
        cJSON_AddStringToObject(object, "category", vt_category_name(block->category));
        cJSON_AddStringToObject(object, "owner", block->owner ? block->owner : "");
        cJSON_AddStringToObject(object, "module", module ? module : "");
        vt_json_line(object, report->trace, vt_telling_stack(block));
        cJSON_AddStringToObject(object, "phase", vt_phase_name(freed->phase));
        vt_json_number(object, "after_events", freed->after_events);
        cJSON_AddItemToArray(array, object);
    }
    cJSON_AddBoolToObject(last, "freed_next_happened", shortage->freed_is_told);
}

static void add_cache(cJSON *last, const struct vt_fragmentation *cache)
{
    cJSON *object = cJSON_AddObjectToObject(last, "cache"), *holes;

    vt_json_number(object, "bytes", cache->hole_bytes);
    vt_json_number(object, "largest_hole_bytes", cache->largest_hole_bytes);
    vt_json_number(object, "empty_bytes", cache->empty_bytes);
    holes = cJSON_AddArrayToObject(object, "holes");
    for (size_t i = 0; i < cache->hole_count; i++) {
        cJSON *hole = cJSON_CreateObject();

        vt_json_number(hole, "address", cache->holes[i].address);
        vt_json_number(hole, "bytes", cache->holes[i].bytes);
        cJSON_AddItemToArray(holes, hole);
    }
}

static int add_last(cJSON *root, const struct vt_report *report, int top)
{
    const struct vt_refusal *refusal = report->refusals + report->refusal_count - 1;
    struct vt_shortage shortage;
    cJSON *last, *card, *categories;
    int result = vt_shortage_find(report, &shortage);

    if (result || !shortage.device)
        return result;
    last = cJSON_AddObjectToObject(root, "last");
    if (shortage.missing_bytes)
        vt_json_number(last, "missing_bytes", shortage.missing_bytes);
    card = cJSON_AddObjectToObject(last, "card");
    if (refusal->free_known) {
        vt_json_number(card, "total_bytes", refusal->total_bytes);
        vt_json_number(card, "free_bytes", refusal->free_bytes);
        cJSON_AddBoolToObject(card, "free_told", refusal->free_told);
        vt_json_number(card, "other_bytes", shortage.other_bytes);
    }
    vt_json_number(card, "driver_bytes", refusal->driver_bytes);
    categories = cJSON_AddObjectToObject(card, "categories");
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        if (c != VT_CATEGORY_HOST_PINNED)
            vt_json_number(categories, vt_category_name((enum vt_category)c), refusal->categories[c]);
    add_cache(last, &shortage.cache);
    add_freed(last, report, &shortage, top);
    vt_json_view(last, "at", report, &shortage.device->at, top);
    vt_shortage_free(&shortage);
    return 0;
}

static int write_json_oom(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = cJSON_CreateObject(), *survived;
    int result = 0;

    cJSON_AddStringToObject(root, "format", "vramtrace.oom/1");
    vt_json_trace(cJSON_AddObjectToObject(root, "trace"), report->trace);
    vt_json_refusals(root, report);
    survived = cJSON_AddObjectToObject(root, "survived");
    vt_json_number(survived, "times", report->survived_count);
    vt_json_number(survived, "largest_bytes", report->survived_bytes);
    if (report->refusal_count)
        result = add_last(root, report, style->top);
    if (!result)
        result = root ? vt_json_print(root, style->compact, out) : -ENOMEM;
    cJSON_Delete(root);
    return result;
}

const struct vt_view vt_view_json_oom = {"json", write_json_oom};
