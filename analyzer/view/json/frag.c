/* Fragmentation as JSON: "vramtrace.frag/1". */
#include "diagnose/fragmentation.h"
#include "view/json/json.h"
#include "report/parts.h"

#include <errno.h>

static void add_block(cJSON *array, const struct vt_report *report, uint32_t index)
{
    const struct vt_allocation *block = &report->attribution->replay->allocations[index];
    const struct vt_label *label = &report->attribution->labels[index];
    cJSON *object = vt_json_item();

    vt_json_number(object, "address", block->address);
    vt_json_number(object, "bytes", block->bytes);
    vt_json_text(object, "category", vt_category_name(label->category));
    vt_json_text(object, "owner", label->owner ? label->owner : "");
    vt_json_line(object, report->trace, vt_telling_stack(report->attribution, block));
    vt_json_number(object, "made_event", block->alloc_event);
    if (block->free_event == VT_NEVER)
        vt_json_null(object, "freed_event");
    else
        vt_json_number(object, "freed_event", block->free_event);
    vt_json_append(array, object);
}

static void add_segment(cJSON *array, const struct vt_report *report, const struct vt_fragmentation *found,
                        const struct vt_segment *segment)
{
    cJSON *object = vt_json_item(), *list;

    vt_json_number(object, "address", segment->address);
    vt_json_number(object, "bytes", segment->bytes);
    vt_json_number(object, "block_bytes", segment->block_bytes);
    vt_json_text(object, "pool", segment->small ? "small" : "large");
    list = vt_json_array(object, "blocks");
    for (uint32_t i = 0; i < segment->blocks; i++)
        add_block(list, report, found->blocks[segment->first_block + i]);
    list = vt_json_array(object, "holes");
    for (uint32_t i = 0; i < segment->holes; i++) {
        const struct vt_hole *hole = &found->holes[segment->first_hole + i];
        cJSON *item = vt_json_item();

        vt_json_number(item, "address", hole->address);
        vt_json_number(item, "bytes", hole->bytes);
        vt_json_bool(item, "usable", hole->usable);
        vt_json_append(list, item);
    }
    if (segment->pin != VT_NEVER) {
        list = vt_json_array(object, "pin"); /* one item */
        add_block(list, report, segment->pin);
    }
    vt_json_append(array, object);
}

static int add_device(cJSON *devices, const struct vt_report *report, const struct vt_device_report *device,
                      int top)
{
    const struct vt_instant *instant = vt_shown_instant(device);
    struct vt_fragmentation found;
    int result =
        vt_fragmentation_find(report->attribution->replay, device->index, instant->event_index, &found);
    cJSON *object, *segments;

    if (result)
        return result;
    object = vt_json_item();
    vt_json_integer(object, "index", device->index);
    vt_json_number(object, "t_ns", instant->t_ns);
    vt_json_number(object, "event", instant->event_index);
    vt_json_number(object, "reserved_bytes", found.reserved_bytes);
    vt_json_number(object, "block_bytes", found.block_bytes);
    vt_json_number(object, "hole_bytes", found.hole_bytes);
    vt_json_number(object, "largest_hole_bytes", found.largest_hole_bytes);
    vt_json_number(object, "empty_bytes", found.empty_bytes);
    vt_json_number(object, "kept_bytes", found.kept_bytes);
    vt_json_number(object, "unusable_bytes", found.unusable_bytes);
    segments = vt_json_array(object, "segments");
    for (size_t i = 0; i < found.segment_count && (top <= 0 || i < (size_t)top); i++)
        add_segment(segments, report, &found, &found.segments[i]);
    vt_fragmentation_free(&found);
    vt_json_append(devices, object);
    return 0;
}

static int write_json_frag(const struct vt_report *report, const struct vt_view_style *style, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.frag/1"), *devices;
    int result = 0;

    vt_json_trace(vt_json_object(root, "trace"), report->trace);
    devices = vt_json_array(root, "devices");
    for (size_t i = 0; !result && i < report->device_count; i++)
        result = add_device(devices, report, &report->devices[i], style->top);
    return vt_json_end(root, result, style->compact, out);
}

const struct vt_view vt_view_json_frag = {"json", write_json_frag};
