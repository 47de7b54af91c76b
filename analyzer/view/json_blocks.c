/* The report's JSON: blocks, one by one. */
#include "view/json.h"
#include "view/report_parts.h"
#include "view/format.h"

void vt_json_name(cJSON *object, const char *name, const char *value)
{
    if (value && value[0])
        cJSON_AddStringToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

static cJSON *make_block(const struct vt_report *report, const struct vt_block *block)
{
    static const char *const kinds[] = {"block", "segment", "driver", "pooled", "pool", "context", "host"};
    const struct vt_allocation *allocation = &report->attribution->replay->allocations[block->allocation];
    cJSON *object = cJSON_CreateObject();
    struct vt_rule_source rule;

    vt_rule_source(report->attribution, allocation->rule, &rule);
    vt_json_number(object, "address", allocation->address);
    vt_json_number(object, "bytes", allocation->bytes);
    cJSON_AddStringToObject(object, "kind", kinds[allocation->kind]);
    cJSON_AddStringToObject(object, "category", vt_category_name((enum vt_category)allocation->category));
    cJSON_AddStringToObject(object, "evidence", vt_evidence_name(allocation->evidence));
    cJSON_AddStringToObject(object, "rule", rule.name);
    vt_json_name(object, "owner", allocation->owner);
    vt_json_name(object, "module", vt_shown_module(allocation));
    vt_json_name(object, "op", vt_operator_of(report->attribution, allocation->stack_id));
    cJSON_AddStringToObject(object, "phase", vt_phase_name((enum vt_phase)allocation->phase));
    vt_json_number(object, "step", allocation->step);
    vt_json_number(object, "t_ns", vt_event_time(report->trace, allocation->alloc_event));
    vt_json_number(object, "alloc_event", allocation->alloc_event);
    if (block->number)
        vt_json_number(object, "alloc_number", block->number);
    else
        cJSON_AddNullToObject(object, "alloc_number");
    vt_json_place(object, report->trace, allocation->stack_id);
    if (allocation->forward_stack_id)
        vt_json_place(cJSON_AddObjectToObject(object, "forward"), report->trace,
                      allocation->forward_stack_id);
    else
        cJSON_AddNullToObject(object, "forward");
    return object;
}

void vt_json_blocks(cJSON *view, const struct vt_report *report, const struct vt_instant *instant, int top)
{
    cJSON *array = cJSON_AddArrayToObject(view, "blocks");

    for (size_t i = 0; i < instant->block_count && (top <= 0 || i < (size_t)top); i++)
        cJSON_AddItemToArray(array, make_block(report, &instant->blocks[i]));
}
