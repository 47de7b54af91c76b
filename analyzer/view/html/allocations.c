#include "view/html/allocations.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

#define LEAST_TICK_NS 1000u
#define MOST_TICKS (1u << 24)
#define NEVER UINT32_MAX

/* ---- Collecting ---- */

static void note_change(struct vt_page_allocations *allocations, uint32_t event, uint64_t t_ns)
{
    uint64_t tick = t_ns / allocations->tick_ns;

    allocations->changes[event] = tick < NEVER ? (uint32_t)tick : NEVER - 1;
}

static int collect_allocation(void *context, const void *table_row)
{
    const struct vt_allocation_row *row = table_row;
    const struct vt_block *block = &row->block;
    struct vt_page_allocations *allocations = context;
    struct vt_page_allocation *item = &allocations->items[allocations->count];

    if (row->device_index >= 0 && !strcmp(block->kind, "block"))
        allocations->block_devices |= UINT64_C(1) << (row->device_index & 63);
    if (block->freed && block->free_event == block->alloc_event)
        return 0; /* it never counted */
    if (row->device_index >= 0 && !(allocations->devices >> (row->device_index & 63) & 1))
        return 0; /* not asked for */
    note_change(allocations, block->alloc_event, block->t_ns);
    if (block->freed)
        note_change(allocations, block->free_event, row->free_t_ns);
    *item = (struct vt_page_allocation){.alloc_event = block->alloc_event,
                                        .free_event = block->freed ? block->free_event : NEVER,
                                        .address = block->address,
                                        .bytes = block->bytes};
    allocations->count++;
    item->class_number = vt_classes_find(&allocations->classes, row);
    return 0;
}

static uint64_t tick_for(uint64_t duration_ns)
{
    uint64_t tick_ns = LEAST_TICK_NS;

    while (duration_ns / tick_ns > MOST_TICKS)
        tick_ns *= 2;
    return tick_ns;
}

/* ---- Tables ---- */

/* Numbers the changes: until now `changes` has the time of each. */
static void add_changes(struct vt_page_trace *page, struct vt_page_allocations *allocations)
{
    struct vt_page_table table = {.page = page};
    uint32_t tick = 0, number = 0;

    vt_page_table_add(&table, "event", VT_ENCODING_DELTAS);
    vt_page_table_add(&table, "tick", VT_ENCODING_DELTAS);
    for (uint32_t event = 0; event < allocations->event_count; event++) {
        uint32_t at = allocations->changes[event];

        if (at != NEVER) {
            tick = at > tick ? at : tick; /* clocks of two threads can be a little apart */
            vt_page_table_put(&table, (uint64_t[]){vt_report_event_number(page->report, event), tick});
            number++;
        }
        allocations->changes[event] = number ? number - 1 : 0;
    }
    allocations->change_count = number;
    vt_page_table_finish(&table, "changes");
}

static void add_allocations(struct vt_page_trace *page, const struct vt_page_allocations *allocations)
{
    struct vt_page_table table = {.page = page};

    vt_page_table_add(&table, "begin", VT_ENCODING_DELTAS);
    vt_page_table_add(&table, "life", VT_ENCODING_NUMBERS);
    vt_page_table_add(&table, "class", VT_ENCODING_DELTAS);
    vt_page_table_add(&table, "bytes", VT_ENCODING_NUMBERS);
    vt_page_table_add(&table, "address", VT_ENCODING_NUMBERS);
    for (size_t i = 0; i < allocations->count; i++) {
        const struct vt_page_allocation *item = &allocations->items[i];
        uint32_t begin = allocations->changes[item->alloc_event];
        uint32_t life = item->free_event == NEVER ? 0 : allocations->changes[item->free_event] - begin;

        vt_page_table_put(&table, (uint64_t[]){begin, life, item->class_number, item->bytes, item->address});
    }
    vt_page_table_finish(&table, "allocations");
}

void vt_page_allocations_add(struct vt_page_trace *page, struct vt_page_allocations *allocations)
{
    size_t rows = page->report->allocation_count, events = page->report->event_count;

    *allocations =
        (struct vt_page_allocations){.tick_ns = tick_for(page->report->duration_ns),
                                     .event_count = events,
                                     .items = vt_resize(NULL, rows + 1, sizeof *allocations->items),
                                     .changes = vt_resize(NULL, events + 1, sizeof *allocations->changes)};
    for (size_t i = 0; i < page->report->device_count; i++)
        allocations->devices |= UINT64_C(1) << (page->report->devices[i].index & 63);
    memset(allocations->changes, 0xff, (events + 1) * sizeof *allocations->changes);
    vt_classes_begin(&allocations->classes, page);
    vt_table_walk(page->tables, VT_TABLE_ALLOCATIONS, collect_allocation, allocations);
    add_changes(page, allocations);
    add_allocations(page, allocations);
    vt_classes_finish(&allocations->classes);
    vt_classes_free(&allocations->classes);
    free(allocations->items);
    allocations->items = NULL;
}

void vt_page_allocations_free(struct vt_page_allocations *allocations)
{
    free(allocations->changes);
    allocations->changes = NULL;
}
