/* Fragmentation as JSON: "vramtrace.frag/1". */
#include "attribute/fragmentation.h"
#include "view/json.h"
#include "view/report_parts.h"

#include <errno.h>

static void add_block(cJSON *array, const struct vt_report *report, uint32_t index)
{
    const struct vt_allocation *block = &report->attribution->replay->allocations[index];
    cJSON *object = cJSON_CreateObject();

    vt_json_number(object, "address", block->address);
    vt_json_number(object, "bytes", block->bytes);
    cJSON_AddStringToObject(object, "category", vt_category_name(block->category));
    cJSON_AddStringToObject(object, "owner", block->owner ? block->owner : "");
    vt_json_line(object, report->trace, vt_telling_stack(block));
    vt_json_number(object, "made_event", block->alloc_event);
    if (block->free_event == VT_NEVER)
        cJSON_AddNullToObject(object, "freed_event");
    else
        vt_json_number(object, "freed_event", block->free_event);
    cJSON_AddItemToArray(array, object);
}

static void add_segment(cJSON *array, const struct vt_report *report, const struct vt_fragmentation *found,
                        const struct vt_segment *segment)
{
    cJSON *object = cJSON_CreateObject(), *list;

    vt_json_number(object, "address", segment->address);
    vt_json_number(object, "bytes", segment->bytes);
    vt_json_number(object, "block_bytes", segment->block_bytes);
    cJSON_AddStringToObject(object, "pool", segment->small ? "small" : "large");
    list = cJSON_AddArrayToObject(object, "blocks");
    for (uint32_t i = 0; i < segment->blocks; i++)
        add_block(list, report, found->blocks[segment->first_block + i]);
    list = cJSON_AddArrayToObject(object, "holes");
    for (uint32_t i = 0; i < segment->holes; i++) {
        const struct vt_hole *hole = &found->holes[segment->first_hole + i];
        cJSON *item = cJSON_CreateObject();

        vt_json_number(item, "address", hole->address);
        vt_json_number(item, "bytes", hole->bytes);
        cJSON_AddBoolToObject(item, "usable", hole->usable);
        cJSON_AddItemToArray(list, item);
    }
    if (segment->pin != VT_NEVER) {
        list = cJSON_AddArrayToObject(object, "pin"); /* one item */
        add_block(list, report, segment->pin);
    }
    cJSON_AddItemToArray(array, object);
}

static int add_device(cJSON *devices, const struct vt_report *report, const struct vt_device_report *device,
                      int top)
{
    const struct vt_instant *instant = vt_shown_instant(device);
    struct vt_fragmentation found;
    int result =
        vt_fragmentation_find(report->attribution->replay, device->index, instant->event_index, &found);
    cJSON *object = cJSON_CreateObject(), *segments;

    cJSON_AddItemToArray(devices, object);
    if (result)
        return result;
    cJSON_AddNumberToObject(object, "index", device->index);
    vt_json_number(object, "t_ns", instant->t_ns);
    vt_json_number(object, "event", instant->event_index);
    vt_json_number(object, "reserved_bytes", found.reserved_bytes);
    vt_json_number(object, "block_bytes", found.block_bytes);
    vt_json_number(object, "hole_bytes", found.hole_bytes);
    vt_json_number(object, "largest_hole_bytes", found.largest_hole_bytes);
    vt_json_number(object, "empty_bytes", found.empty_bytes);
    vt_json_number(object, "kept_bytes", found.kept_bytes);
    vt_json_number(object, "unusable_bytes", found.unusable_bytes);
    segments = cJSON_AddArrayToObject(object, "segments");
    for (size_t i = 0; i < found.segment_count && (top <= 0 || i < (size_t)top); i++)
        add_segment(segments, report, &found, &found.segments[i]);
    vt_fragmentation_free(&found);
    return 0;
}

static int write_json_frag(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = cJSON_CreateObject(), *devices;
    int result = 0;

    cJSON_AddStringToObject(root, "format", "vramtrace.frag/1");
    vt_json_trace(cJSON_AddObjectToObject(root, "trace"), report->trace);
    devices = cJSON_AddArrayToObject(root, "devices");
    for (size_t i = 0; !result && i < report->device_count; i++)
        result = add_device(devices, report, &report->devices[i], style->top);
    if (!result)
        result = root ? vt_json_print(root, style->compact, out) : -ENOMEM;
    cJSON_Delete(root);
    return result;
}

const struct vt_view vt_view_json_frag = {"json", write_json_frag};
