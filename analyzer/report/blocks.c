/* What counts as alive, and blocks one by one with all that is printed of them. */
#include "report/blocks.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/moments.h"

#include <stdlib.h>

bool vt_is_grouped(const struct vt_allocation *allocation)
{
    return !vt_is_container(allocation) && allocation->kind != VT_ALLOCATION_CONTEXT &&
           allocation->kind != VT_ALLOCATION_HOST && !(allocation->flags & VT_FLAG_FOREIGN);
}

bool vt_is_counted(const struct vt_allocation *allocation, int device_index, uint32_t event_index)
{
    return allocation->device_index == device_index && vt_alive_at(allocation, event_index) &&
           vt_is_grouped(allocation);
}

bool vt_is_host_memory(const struct vt_allocation *allocation)
{
    return allocation->kind == VT_ALLOCATION_HOST && !(allocation->flags & VT_FLAG_FOREIGN);
}

struct vt_counted vt_counted_at(const struct vt_replay *replay, int device_index, uint32_t event_index)
{
    struct vt_counted counted = {0};
    size_t capacity = 0;

    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        if (replay->allocations[i].alloc_event > event_index)
            break;
        if (vt_is_counted(&replay->allocations[i], device_index, event_index))
            VT_APPEND(counted.items, counted.count, capacity, i);
    }
    return counted;
}

uint32_t vt_telling_stack(const struct vt_attribution *attribution, const struct vt_allocation *allocation)
{
    uint32_t forward = vt_label_of(attribution, allocation)->forward_stack_id;
    bool tells_itself = !forward || vt_trace_is_compiled(attribution->trace, allocation->stack_id);

    return tells_itself ? allocation->stack_id : forward;
}

const char *vt_shown_module(const struct vt_label *label)
{
    bool serves_all =
        label->category == VT_CATEGORY_WORKSPACE || label->category == VT_CATEGORY_COMMUNICATION;

    return serves_all ? NULL : label->module;
}

void vt_block_set(const struct vt_report *report, uint32_t index, struct vt_block *block)
{
    static const char *const kinds[] = {"block", "segment", "driver", "pooled",
                                        "pool",  "context", "host",   "graph"};
    const struct vt_attribution *attribution = report->attribution;
    const struct vt_allocation *allocation = &attribution->replay->allocations[index];
    const struct vt_label *label = vt_label_of(attribution, allocation);
    const struct vt_inspection_holder *holder = vt_holder_of(attribution, index);
    struct vt_rule_source rule;

    vt_rule_text(attribution, label->rule, &rule);
    *block = (struct vt_block){.address = allocation->address,
                               .bytes = allocation->bytes,
                               .t_ns = vt_event_time(report->trace, allocation->alloc_event),
                               .allocation = index,
                               .alloc_event = allocation->alloc_event,
                               .free_event = allocation->free_event,
                               .step = label->step,
                               .freed = allocation->free_event != VT_NEVER,
                               .category = label->category,
                               .evidence = label->evidence,
                               .phase = label->phase,
                               .kind = kinds[allocation->kind],
                               .rule = rule.name,
                               .owner = label->owner,
                               .holder = holder ? holder->holder : NULL,
                               .module = vt_shown_module(label),
                               .operator_name = vt_operator_of(attribution, allocation->stack_id),
                               .place = vt_place_of(report->places, allocation->stack_id)};
    if (label->forward_stack_id)
        block->forward_place = vt_place_of(report->places, label->forward_stack_id);
    block->has_forward = label->forward_stack_id != 0;
    block->shown_place = block->has_forward ? block->forward_place : block->place;
}

/* Largest first; those of one size in the order that they were made. */
static int compare_blocks(const void *left, const void *right)
{
    const struct vt_block *a = left, *b = right;

    return 2 * vt_order(b->bytes, a->bytes) + vt_order(a->allocation, b->allocation);
}

void vt_list_blocks(const struct vt_report *report, int device_index, struct vt_instant *instant)
{
    const struct vt_allocation *allocations = report->attribution->replay->allocations;
    const struct vt_event *events = report->trace->events;
    struct vt_counted counted =
        vt_counted_at(report->attribution->replay, device_index, instant->state.event_index);
    uint64_t number = 0;
    uint32_t event = 0;

    instant->blocks = vt_allocate_zeros(counted.count + 1, sizeof *instant->blocks);
    instant->block_count = counted.count;
    for (size_t i = 0; i < counted.count; i++) {
        const struct vt_allocation *allocation = &allocations[counted.items[i]];

        for (; event <= allocation->alloc_event; event++)
            number += events[event].kind == VT_EVENT_ALLOC && events[event].layer == VT_LAYER_FRAMEWORK &&
                      events[event].device_index == device_index;
        vt_block_set(report, counted.items[i], &instant->blocks[i]);
        instant->blocks[i].number = allocation->kind == VT_ALLOCATION_BLOCK ? number : 0;
    }
    vt_sort(instant->blocks, instant->block_count, sizeof *instant->blocks, compare_blocks);
    free(counted.items);
}
