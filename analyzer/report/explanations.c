/* --explain: what a name means, and why its bytes are in their categories. */
#include "report/explanations.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/module_names.h"
#include "base/sort.h"
#include "report/blocks.h"
#include "report/moments.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The text on the command line, parsed. */
struct wanted {
    const struct vt_attribution *attribution;
    const char *what;
    unsigned category;
    size_t file_bytes; /* of "FILE:LINE" */
    int32_t line;
};

static bool is_line_of(const struct wanted *wanted, uint32_t stack_id)
{
    struct vt_frame frame;
    size_t bytes;

    if (!stack_id || !vt_trace_user_frame(wanted->attribution->trace, stack_id, &frame) ||
        frame.line != wanted->line)
        return false;
    bytes = strlen(frame.file);
    return bytes >= wanted->file_bytes &&
           !memcmp(frame.file + bytes - wanted->file_bytes, wanted->what, wanted->file_bytes) &&
           (bytes == wanted->file_bytes || frame.file[bytes - wanted->file_bytes - 1] == '/');
}

static bool is_of_line(const struct wanted *wanted, uint32_t allocation)
{
    return is_line_of(wanted, wanted->attribution->replay->allocations[allocation].stack_id) ||
           is_line_of(wanted, wanted->attribution->labels[allocation].forward_stack_id);
}

static bool is_same(const char *name, const char *what)
{
    return !strcmp(name, what);
}

static bool is_part(const char *name, const char *what)
{
    return strstr(name, what) != NULL;
}

/* True if the name of an owner of the allocation agrees, or that of a module (`of_module`). */
static bool any_name(const struct wanted *wanted, uint32_t allocation, bool of_module,
                     bool (*agrees)(const char *, const char *))
{
    size_t count;
    const struct vt_owner *owners = vt_owners_of(wanted->attribution, allocation, &count);
    const struct vt_label *label = &wanted->attribution->labels[allocation];
    const char *name = of_module ? vt_shown_module(label) : label->owner;

    for (size_t i = 0; !(name && agrees(name, wanted->what)) && i < count; i++)
        name = of_module ? owners[i].module : owners[i].name;
    return name && agrees(name, wanted->what);
}

/* Ways to read the text, in order: the first that matches something alive is taken. The others than a
 * category and a line go by a name. */
enum way { BY_CATEGORY, BY_LINE, BY_OWNER, BY_MODULE, BY_OWNER_PART, BY_MODULE_PART };
static const struct {
    const char *name, *label;
    bool (*agrees)(const char *name, const char *what);
} ways[] = {
    [BY_CATEGORY] = {"category", "a category", NULL},
    [BY_LINE] = {"line", "a line", NULL},
    [BY_OWNER] = {"owner", "an owner", is_same},
    [BY_MODULE] = {"module", "a module", vt_module_is_inside},
    [BY_OWNER_PART] = {"owner_part", "part of owners' names", is_part},
    [BY_MODULE_PART] = {"module_part", "part of modules' names", is_part},
};
#define WAYS (sizeof ways / sizeof *ways)

static bool is_meant(const struct wanted *wanted, enum way way, uint32_t allocation)
{
    if (way == BY_CATEGORY)
        return wanted->attribution->labels[allocation].category == wanted->category;
    if (way == BY_LINE)
        return is_of_line(wanted, allocation);
    return any_name(wanted, allocation, way == BY_MODULE || way == BY_MODULE_PART, ways[way].agrees);
}

static void read_wanted(const struct vt_attribution *attribution, const char *what, struct wanted *wanted)
{
    const char *colon = strrchr(what, ':');
    char *end;

    *wanted =
        (struct wanted){.attribution = attribution, .what = what, .category = VT_CATEGORY_COUNT, .line = -1};
    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        if (!strcmp(what, vt_category_name(c)) || !strcmp(what, vt_category_label(c)) ||
            !strcmp(what, vt_category_many(c)))
            wanted->category = c;
    if (colon && colon > what && colon[1] >= '1' && colon[1] <= '9') {
        long line = strtol(colon + 1, &end, 10);
        wanted->line = *end || line > INT32_MAX ? -1 : (int32_t)line;
        wanted->file_bytes = (size_t)(colon - what);
    }
}

/* What an inspection saw in the largest block, if one did. */
static void find_inspection(const struct vt_attribution *attribution, struct vt_reason *reason)
{
    const struct vt_allocation *allocation = &attribution->replay->allocations[reason->allocation];
    const struct vt_inspection *inspection = vt_inspection_of(attribution, reason->allocation);

    for (size_t t = 0; inspection && t < inspection->tensor_count; t++) {
        const struct vt_inspection_tensor *tensor = &inspection->tensors[t];
        uint64_t address = tensor->storage_address ? tensor->storage_address : tensor->data_address;

        if (tensor->device_index != allocation->device_index || address < allocation->address ||
            address - allocation->address >= allocation->bytes)
            continue;
        reason->inspection = (uint32_t)(inspection - attribution->trace->inspections) + 1;
        reason->inspection_t_ns = vt_event_time(attribution->trace, inspection->event_index);
        reason->role = tensor->role;
        reason->path = tensor->path;
        return;
    }
}

static struct vt_reason *reason_for(struct vt_explanation *explanation, const struct vt_label *label)
{
    struct vt_reason *reason;

    for (size_t i = 0; i < explanation->count; i++) {
        reason = &explanation->reasons[i];
        if (reason->category == label->category && reason->evidence == label->evidence &&
            reason->rule == label->rule)
            return reason;
    }
    explanation->reasons = vt_resize(explanation->reasons, explanation->count + 1, sizeof *reason);
    reason = &explanation->reasons[explanation->count++];
    *reason =
        (struct vt_reason){.category = label->category, .evidence = label->evidence, .rule = label->rule};
    return reason;
}

static int compare_reasons(const void *left, const void *right)
{
    const struct vt_reason *a = left, *b = right;

    return 2 * vt_order(b->bytes, a->bytes) + vt_order(a->allocation, b->allocation);
}

static void add_block(struct vt_explanation *explanation, const struct vt_attribution *attribution,
                      uint32_t allocation)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_reason *reason = reason_for(explanation, &attribution->labels[allocation]);
    uint64_t bytes = replay->allocations[allocation].bytes;

    if (!reason->blocks || bytes > replay->allocations[reason->allocation].bytes)
        reason->allocation = allocation;
    reason->blocks++;
    reason->bytes += bytes;
    explanation->blocks++;
    explanation->bytes += bytes;
}

/* Fills what is printed of a reason, except its sums. */
static void describe_reason(const struct vt_report *report, struct vt_reason *reason)
{
    const struct vt_attribution *attribution = report->attribution;
    const struct vt_label *label = &attribution->labels[reason->allocation];
    struct vt_rule_source source;

    vt_rule_text(attribution, reason->rule, &source);
    if (source.name[0]) {
        reason->rule_name = source.name;
        reason->rule_file = source.file;
        reason->rule_text = source.text;
        reason->rule_line = source.line;
    } else {
        find_inspection(attribution, reason);
    }
    reason->how = reason->rule_name ? "rule" : reason->inspection ? "look" : "kind";
    reason->owner = label->owner;
    reason->stack_id = attribution->replay->allocations[reason->allocation].stack_id;
    reason->forward_stack_id = label->forward_stack_id;
    reason->stack = vt_stack_name_of(report->places, reason->stack_id)->text;
    if (reason->forward_stack_id)
        reason->forward_stack = vt_stack_name_of(report->places, reason->forward_stack_id)->text;
    reason->stack = reason->stack ? reason->stack : "";
    reason->forward_stack = reason->forward_stack ? reason->forward_stack : "";
}

void vt_explain(const struct vt_report *report, const char *what, struct vt_device_report *device)
{
    struct vt_explanation *explanation = &device->explanation;
    struct vt_counted counted =
        vt_counted_at(report->attribution->replay, device->index, device->shown->state.event_index);
    struct wanted wanted;

    *explanation = (struct vt_explanation){.what = what};
    read_wanted(report->attribution, what, &wanted);
    for (size_t way = 0; way < WAYS && !explanation->blocks; way++) {
        for (size_t i = 0; i < counted.count; i++)
            if (is_meant(&wanted, (enum way)way, counted.items[i]))
                add_block(explanation, report->attribution, counted.items[i]);
        if (explanation->blocks) {
            explanation->way = ways[way].name;
            explanation->way_label = ways[way].label;
        }
    }
    if (!explanation->blocks && wanted.category != VT_CATEGORY_COUNT)
        explanation->way = ways[0].name;
    for (size_t i = 0; i < explanation->count; i++)
        describe_reason(report, &explanation->reasons[i]);
    vt_sort(explanation->reasons, explanation->count, sizeof *explanation->reasons, compare_reasons);
    free(counted.items);
}
