/* `diff --json`: what differs, one list for each way of grouping. */
#include "diagnose/diff.h"
#include "base/format.h"
#include "view/json/json.h"

#include <errno.h>

static const struct {
    const char *name;
    enum vt_by by;
} lists[] = {{"modules", VT_BY_MODULE}, {"kinds", VT_BY_KIND},   {"owners", VT_BY_OWNER},
             {"lines", VT_BY_LINE},     {"stacks", VT_BY_STACK}, {"ops", VT_BY_OP}};

static void add_run(cJSON *root, const char *name, const struct vt_report *report)
{
    cJSON *object = vt_json_object(root, name);

    vt_json_trace(vt_json_object(object, "trace"), report->trace);
    vt_json_text(object, "moment", report->at_label[0] ? report->at_label : "the peak");
}

static void add_place(cJSON *object, const struct vt_diff_row *row)
{
    const struct vt_group *a = row->a.group, *b = row->b.group, *shown = b ? b : a;

    if (!shown)
        return;
    vt_json_text(object, "file", shown->file ? shown->file : "");
    vt_json_text(object, "function", shown->function ? shown->function : "");
    vt_json_number(object, "a_line", a && a->line > 0 ? (uint64_t)a->line : 0);
    vt_json_number(object, "b_line", b && b->line > 0 ? (uint64_t)b->line : 0);
    vt_json_text(object, "phase", vt_phase_name(shown->phase));
}

static void add_row(cJSON *array, const struct vt_diff_row *row, enum vt_by by)
{
    cJSON *object = vt_json_item(), *categories;

    vt_json_text(object, "name", row->name);
    vt_json_text(object, "kind", vt_diff_kind_name(row->kind));
    vt_json_change(object, "change_bytes", row->a.bytes, row->b.bytes);
    vt_json_number(object, "a_bytes", row->a.bytes);
    vt_json_number(object, "b_bytes", row->b.bytes);
    if (by == VT_BY_LINE)
        add_place(object, row);
    if (by != VT_BY_CATEGORY) {
        vt_json_number(object, "a_blocks", row->a.blocks);
        vt_json_number(object, "b_blocks", row->b.blocks);
        vt_json_number(object, "members", row->members);
        categories = vt_json_object(object, "categories");
        for (int c = 0; c < VT_CATEGORY_COUNT; c++)
            if (row->a.categories[c] != row->b.categories[c])
                vt_json_change(categories, vt_category_name(c), row->a.categories[c], row->b.categories[c]);
    }
    vt_json_append(array, object);
}

static void add_rows(cJSON *device, const char *name, const struct vt_diff_rows *rows, enum vt_by by, int top)
{
    cJSON *array = vt_json_array(device, name);

    for (size_t i = 0; i < rows->count && (top <= 0 || i < (size_t)top); i++)
        add_row(array, &rows->items[i], by);
}

int vt_diff_json(const struct vt_diff *diff, const struct vt_view_style *style, unsigned groups, FILE *out)
{
    cJSON *root = vt_json_begin("vramtrace.diff/1"), *devices;

    add_run(root, "a", diff->a);
    add_run(root, "b", diff->b);
    devices = vt_json_array(root, "devices");
    for (size_t i = 0; i < diff->device_count; i++) {
        const struct vt_diff_device *device = &diff->devices[i];
        cJSON *object = vt_json_item();

        vt_json_integer(object, "index", device->index);
        vt_json_text(object, "name", device->name ? device->name : "");
        vt_json_bool(object, "differs", device->differs);
        vt_json_moment(object, "a", device->a);
        vt_json_moment(object, "b", device->b);
        add_rows(object, "categories", &device->rows[VT_BY_CATEGORY], VT_BY_CATEGORY, 0);
        for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
            if (groups & 1u << lists[k].by)
                add_rows(object, lists[k].name, &device->rows[lists[k].by], lists[k].by, style->top);
        vt_json_append(devices, object);
    }
    return vt_json_end(root, 0, style->compact, out);
}
