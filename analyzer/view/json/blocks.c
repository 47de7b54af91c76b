/* The report's JSON: blocks, one by one. */
#include "view/json/json.h"
#include "report/parts.h"
#include "base/format.h"

static cJSON *make_block(const struct vt_report *report, const struct vt_block *block)
{
    static const char *const kinds[] = {"block", "segment", "driver", "pooled", "pool", "context", "host"};
    const struct vt_allocation *allocation = &report->attribution->replay->allocations[block->allocation];
    const struct vt_label *label = &report->attribution->labels[block->allocation];
    cJSON *object = vt_json_item();
    struct vt_rule_source rule;

    vt_rule_source(report->attribution, label->rule, &rule);
    vt_json_number(object, "address", allocation->address);
    vt_json_number(object, "bytes", allocation->bytes);
    vt_json_text(object, "kind", kinds[allocation->kind]);
    vt_json_text(object, "category", vt_category_name(label->category));
    vt_json_text(object, "evidence", vt_evidence_name(label->evidence));
    vt_json_text(object, "rule", rule.name);
    vt_json_name(object, "owner", label->owner);
    vt_json_name(object, "module", vt_shown_module(label));
    vt_json_name(object, "op", vt_operator_of(report->attribution, allocation->stack_id));
    vt_json_text(object, "phase", vt_phase_name(label->phase));
    vt_json_number(object, "step", label->step);
    vt_json_number(object, "t_ns", vt_event_time(report->trace, allocation->alloc_event));
    vt_json_number(object, "alloc_event", allocation->alloc_event);
    if (block->number)
        vt_json_number(object, "alloc_number", block->number);
    else
        vt_json_null(object, "alloc_number");
    vt_json_place(object, report->trace, allocation->stack_id);
    if (label->forward_stack_id)
        vt_json_place(vt_json_object(object, "forward"), report->trace, label->forward_stack_id);
    else
        vt_json_null(object, "forward");
    return object;
}

void vt_json_blocks(cJSON *view, const struct vt_report *report, const struct vt_instant *instant, int top)
{
    cJSON *array = vt_json_array(view, "blocks");

    for (size_t i = 0; i < instant->block_count && (top <= 0 || i < (size_t)top); i++)
        vt_json_append(array, make_block(report, &instant->blocks[i]));
}
