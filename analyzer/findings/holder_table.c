/* Who keeps what, at the inspection nearest to a moment. Each byte counts once: for the module or optimizer
 * whose tensor it is, else for the name that a tensor in it was found under, else for the name whose autograd
 * graph has the node that it was made for. What is left, no name reaches: temporaries, or memory of C++. */
#include "findings/holder_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/blocks.h"
#include "report/moments.h"
#include "trace/frameworks.h"

/* A block that was alive at the inspection. */
struct held_block {
    uint64_t address, bytes,
        node; /* node: number of the autograd node that it was made for, UINT64_MAX = none */
    uint32_t allocation;
    bool counted; /* for a holder */
};

struct maker {
    const struct vt_report *report;
    const struct vt_attribution *attribution;
    const struct vt_inspection *inspection;
    int device_index;
    struct held_block *blocks; /* by address */
    uint32_t *by_node;         /* those with a node, by its number; then places of the blocks */
    size_t count, node_count;
    uint32_t *next_free; /* by place in by_node: where the next one may be that is not counted yet */
    struct vt_index rows;
    size_t capacity;
    struct vt_holder_table *table;
};

static uint64_t sum_of(const struct vt_replay *replay, const struct vt_counted *there,
                       const uint32_t *alive_at)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < there->count; i++) {
        const struct vt_allocation *block = &replay->allocations[there->items[i]];
        bytes += !alive_at || vt_alive_at(block, *alive_at) ? block->bytes : 0;
    }
    return bytes;
}

/* By how many bytes the memory at an inspection differs from that of a moment. One that comes after the work
 * counts a quarter of them more: then less refers to the same memory. */
static uint64_t difference(const struct vt_replay *replay, int device_index, uint32_t last_made,
                           const struct vt_counted *there, uint32_t event)
{
    struct vt_counted seen = vt_counted_at(replay, device_index, event);
    const uint64_t all = sum_of(replay, there, NULL), shared = sum_of(replay, there, &event),
                   bytes = sum_of(replay, &seen, NULL);
    free(seen.items);
    return all + bytes - 2 * shared + (event < last_made ? 0 : all / 4);
}

/* Of those whose search went to its end, else of all that searched: the one with the memory nearest to the
 * moment's, of equal ones the nearest in time. NULL = none searched. */
static const struct vt_inspection *choose(const struct vt_replay *replay, int device_index, uint32_t event)
{
    const struct vt_trace *trace = replay->trace;
    struct vt_counted there = vt_counted_at(replay, device_index, event);
    const struct vt_inspection *best = NULL;
    uint64_t least = 0;
    uint32_t last_made = 0;
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].device_index == device_index &&
            replay->allocations[i].alloc_event > last_made)
            last_made = replay->allocations[i].alloc_event;
    for (size_t i = 0; i < trace->inspection_count; i++) {
        const struct vt_inspection *seen = &trace->inspections[i];
        if (!seen->census || (best && best->census_ended && !seen->census_ended))
            continue;
        const uint64_t bytes = difference(replay, device_index, last_made, &there, seen->event_index);
        const bool nearer =
            best && vt_distance(vt_event_time(trace, seen->event_index), vt_event_time(trace, event)) <
                        vt_distance(vt_event_time(trace, best->event_index), vt_event_time(trace, event));
        if (best && best->census_ended == seen->census_ended &&
            (bytes > least || (bytes == least && !nearer)))
            continue;
        best = seen;
        least = bytes;
    }
    free(there.items);
    return best;
}

/* ---- Blocks ---- */

static int compare_addresses(const void *left, const void *right)
{
    const struct held_block *a = left, *b = right;
    return vt_order(a->address, b->address);
}

static int compare_nodes(const void *left, const void *right, void *blocks)
{
    const struct held_block *a = (const struct held_block *)blocks + *(const uint32_t *)left,
                            *b = (const struct held_block *)blocks + *(const uint32_t *)right;
    return 2 * vt_order(a->node, b->node) + vt_order(a->allocation, b->allocation);
}

/* As inspections number nodes; later blocks with this number belong to another node. */
static uint64_t node_of(const struct vt_attribution *attribution, const struct vt_allocation *block)
{
    if (block->sequence % 2 || block->sequence <= VT_SEQUENCE_NO_NUMBER ||
        !vt_made_node(attribution, block->alloc_event))
        return UINT64_MAX;
    return ((block->sequence & ((UINT64_C(1) << VT_SEQUENCE_THREAD_SHIFT) - 1)) - 2) / 2;
}

static void list_blocks(struct maker *maker)
{
    const struct vt_replay *replay = maker->attribution->replay;
    struct vt_counted there = vt_counted_at(replay, maker->device_index, maker->inspection->event_index);
    maker->blocks = vt_allocate_zeros(there.count + 1, sizeof *maker->blocks);
    maker->by_node = vt_allocate_zeros(there.count + 1, sizeof *maker->by_node);
    maker->next_free = vt_allocate_zeros(there.count + 2, sizeof *maker->next_free);
    maker->count = there.count;
    for (size_t i = 0; i < there.count; i++) {
        const struct vt_allocation *block = &replay->allocations[there.items[i]];
        maker->blocks[i] = (struct held_block){.address = block->address,
                                               .bytes = block->bytes,
                                               .node = node_of(maker->attribution, block),
                                               .allocation = there.items[i]};
        maker->table->bytes += block->bytes;
    }
    vt_sort(maker->blocks, maker->count, sizeof *maker->blocks, compare_addresses);
    for (uint32_t i = 0; i < maker->count; i++)
        if (maker->blocks[i].node != UINT64_MAX)
            maker->by_node[maker->node_count++] = i;
    if (maker->node_count > 1)
        qsort_r(maker->by_node, maker->node_count, sizeof *maker->by_node, compare_nodes, maker->blocks);
    for (uint32_t i = 0; i <= maker->node_count; i++)
        maker->next_free[i] = i;
    free(there.items);
}

/* The block that an address lies in; NULL = none. */
static struct held_block *block_at(const struct maker *maker, uint64_t address)
{
    const struct held_block key = {.address = address + 1};
    size_t after = vt_lower_bound(maker->blocks, maker->count, sizeof key, &key, compare_addresses);
    struct held_block *block = after ? &maker->blocks[after - 1] : NULL;
    return block && address < block->address + block->bytes ? block : NULL;
}

/* ---- Rows ---- */

static struct vt_holder_row *row_of(struct maker *maker, const char *name, size_t bytes, const char *from)
{
    struct vt_holder_table *table = maker->table;
    const uint64_t key = vt_hash_bytes(name, bytes, VT_HASH_START);
    uint32_t at = vt_index_get(&maker->rows, key);
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)table->row_count;
        vt_index_put(&maker->rows, key, at);
        VT_APPEND(table->rows, table->row_count, maker->capacity,
                  (struct vt_holder_row){.name = name, .from = from});
    }
    return &table->rows[at];
}

static void count_block(const struct maker *maker, struct held_block *block, bool by_graph,
                        struct vt_holder_row *row)
{
    if (block->counted)
        return;
    block->counted = true;
    row->bytes += block->bytes;
    row->graph_bytes += by_graph ? block->bytes : 0;
    row->categories[maker->attribution->labels[block->allocation].category] += block->bytes;
    maker->table->held_bytes += block->bytes;
}

/* "model net (Sequential)", "optimizer (AdamW)". */
static const char *root_name(const struct maker *maker, const struct vt_inspection_root *root,
                             const char *what)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s%.300s%s%.100s%s", what, root->holder[0] ? " " : "", root->holder,
             root->class_name[0] ? " (" : "", root->class_name, root->class_name[0] ? ")" : "");
    return vt_places_text(maker->report->places, name);
}

static void add_named(struct maker *maker)
{
    const struct vt_trace *trace = maker->report->trace;
    for (size_t i = 0; i < maker->inspection->tensor_count; i++) {
        const struct vt_inspection_tensor *tensor = &maker->inspection->tensors[i];
        struct held_block *block =
            tensor->device_index == maker->device_index ? block_at(maker, tensor->storage_address) : NULL;
        const struct vt_inspection_root *root = tensor->optimizer >= 0 ? &trace->optimizers[tensor->optimizer]
                                                : tensor->root >= 0    ? &trace->roots[tensor->root]
                                                                       : NULL;
        if (!block || !root)
            continue;
        const char *name = root_name(maker, root, tensor->optimizer >= 0 ? "optimizer" : "model");
        struct vt_holder_row *row = row_of(maker, name, strlen(name), NULL);
        row->tensors++;
        count_block(maker, block, false, row);
    }
}

/* Where the way begins: the variable, if that is not the holder itself. */
static const char *beginning_of(const struct vt_inspection_holder *holder)
{
    const char *last = holder->way;
    for (const char *at = strstr(last, " < "); at; at = strstr(last, " < "))
        last = at + 3;
    return strcmp(last, holder->holder) == 0 ? NULL : last;
}

static struct vt_holder_row *row_of_holder(struct maker *maker, const struct vt_inspection_holder *holder)
{
    return row_of(maker, holder->holder, vt_holder_bytes(holder->holder), beginning_of(holder));
}

static bool is_here(const struct maker *maker, const struct vt_inspection_holder *holder, bool passing)
{
    return holder->device_index == maker->device_index && (strcmp(holder->kind, "local") == 0) == passing;
}

/* The tensors that were found. A running function's variable comes last: its tensor may have a holder that
 * lasts. */
static void add_direct(struct maker *maker)
{
    for (int passing = 0; passing < 2; passing++)
        for (size_t i = 0; i < maker->inspection->holder_count; i++) {
            const struct vt_inspection_holder *holder = &maker->inspection->holders[i];
            struct held_block *block =
                is_here(maker, holder, passing) ? block_at(maker, holder->storage_address) : NULL;
            if (!block)
                continue;
            struct vt_holder_row *row = row_of_holder(maker, holder);
            row->tensors++;
            count_block(maker, block, false, row);
        }
}

/* ---- Graphs ---- */

/* The first place from `at` on whose block is not counted. */
static uint32_t next_free(struct maker *maker, uint32_t at)
{
    while (at < maker->node_count) {
        if (maker->next_free[at] != at) {
            maker->next_free[at] = maker->next_free[maker->next_free[at]]; /* halves the way */
            at = maker->next_free[at];
        } else if (maker->blocks[maker->by_node[at]].counted) {
            maker->next_free[at] = at + 1;
        } else {
            break;
        }
    }
    return at;
}

static uint32_t first_node(const struct maker *maker, uint64_t number)
{
    uint32_t low = 0, high = (uint32_t)maker->node_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (maker->blocks[maker->by_node[middle]].node < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_graph(struct maker *maker, const struct vt_inspection_holder *holder)
{
    for (const char *at = holder->nodes; *at && maker->node_count;) {
        char *end;
        uint64_t first = strtoull(at, &end, 10);
        uint64_t last = *end == '-' ? strtoull(end + 1, &end, 10) : first;
        for (uint32_t place = next_free(maker, first_node(maker, first));
             place < maker->node_count && maker->blocks[maker->by_node[place]].node <= last;
             place = next_free(maker, place))
            count_block(maker, &maker->blocks[maker->by_node[place]], true, row_of_holder(maker, holder));
        if (*end != ',')
            break;
        at = end + 1;
    }
}

static void add_graphs(struct maker *maker)
{
    for (int passing = 0; passing < 2; passing++)
        for (size_t i = 0; i < maker->inspection->holder_count; i++)
            if (is_here(maker, &maker->inspection->holders[i], passing))
                add_graph(maker, &maker->inspection->holders[i]);
}

/* ---- The table ---- */

static int compare_rows(const void *left, const void *right)
{
    const struct vt_holder_row *a = left, *b = right;
    return a->bytes != b->bytes ? vt_order(b->bytes, a->bytes) : strcmp(a->name, b->name);
}

static void describe(const struct vt_report *report, const struct vt_inspection *inspection, uint64_t t_ns,
                     struct vt_holder_table *table)
{
    const struct vt_span *span = vt_span_at(report->attribution, inspection->event_index);
    table->number = (uint32_t)(inspection - report->trace->inspections) + 1;
    table->event_index = inspection->event_index;
    table->t_ns = vt_event_time(report->trace, inspection->event_index);
    table->step = span->step;
    table->phase = span->phase;
    table->before = table->t_ns < t_ns;
    table->distance_ns = vt_distance(table->t_ns, t_ns);
}

struct vt_holder_table vt_holder_table_make(const struct vt_report *report, int device_index,
                                            uint32_t event_index)
{
    const uint64_t t_ns = vt_event_time(report->trace, event_index);
    struct vt_holder_table table = {.present = true};
    struct maker maker = {.report = report,
                          .attribution = report->attribution,
                          .inspection = choose(report->attribution->replay, device_index, event_index),
                          .device_index = device_index,
                          .table = &table};

    if (!maker.inspection) {
        table.unknown = report->trace->inspection_count ? "no inspection searched for holders"
                                                        : "the program was never inspected";
        return table;
    }
    describe(report, maker.inspection, t_ns, &table);
    if (!maker.inspection->census_ended) {
        table.unknown = "the search for holders was cut off";
        return table;
    }
    list_blocks(&maker);
    add_named(&maker);
    add_direct(&maker);
    add_graphs(&maker);
    for (size_t i = 0; i < maker.count; i++)
        if (!maker.blocks[i].counted)
            table.rest_categories[maker.attribution->labels[maker.blocks[i].allocation].category] +=
                maker.blocks[i].bytes;
    vt_sort(table.rows, table.row_count, sizeof *table.rows, compare_rows);
    vt_index_free(&maker.rows);
    free(maker.blocks);
    free(maker.by_node);
    free(maker.next_free);
    return table;
}
