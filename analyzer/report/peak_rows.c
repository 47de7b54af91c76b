/* What was alive at the peak of a device, summed by everything that distinguishes its parts. */
#include "report/peak_rows.h"

#include "attribute/attribute.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/blocks.h"

#include <stdlib.h>
#include <string.h>

struct summing {
    const struct vt_report *report;
    struct vt_peak_rows *rows;
    size_t capacity;
    struct vt_index index; /* hash of what a row is of → its index */
};

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_place(const struct vt_place *a, const struct vt_place *b)
{
    return a == b || (a && b && a->frame.line == b->frame.line && !strcmp(a->name, b->name) &&
                      !strcmp(a->frame.file, b->frame.file) && !strcmp(a->frame.function, b->frame.function));
}

static bool same_row(const struct vt_peak_row *a, const struct vt_peak_row *b)
{
    return a->category == b->category && a->phase == b->phase && same_place(a->place, b->place) &&
           same_text(a->owner, b->owner) && same_text(a->role, b->role) && same_text(a->module, b->module) &&
           same_text(a->operator_name, b->operator_name);
}

static uint64_t hash_text(const char *text, uint64_t hash)
{
    return text ? vt_hash_bytes(text, strlen(text) + 1, hash) : vt_mix(hash, 1);
}

static uint64_t hash_row(const struct vt_peak_row *row)
{
    uint64_t hash = vt_mix(row->category, row->phase);

    hash = hash_text(row->owner, hash);
    hash = hash_text(row->role, hash);
    hash = hash_text(row->module, hash);
    hash = hash_text(row->operator_name, hash);
    return row->place ? hash_text(row->place->frame.file, hash_text(row->place->name, hash)) : hash;
}

static void add_row(struct summing *summing, const struct vt_peak_row *row)
{
    struct vt_peak_rows *rows = summing->rows;
    uint64_t hash;
    uint32_t at;

    for (hash = hash_row(row);; hash++) {
        at = vt_index_get(&summing->index, hash);
        if (at == VT_INDEX_NONE)
            break;
        if (!same_row(&rows->items[at], row))
            continue;
        rows->items[at].bytes += row->bytes;
        rows->items[at].blocks += row->blocks;
        rows->items[at].exact_bytes += row->exact_bytes;
        return;
    }
    VT_APPEND(rows->items, rows->count, summing->capacity, *row);
    vt_index_put(&summing->index, hash, (uint32_t)rows->count - 1);
}

/* A block in which several tensors lie is a part of the row of each. */
static void add_allocation(struct summing *summing, uint32_t index)
{
    const struct vt_attribution *attribution = summing->report->attribution;
    const struct vt_allocation *allocation = &attribution->replay->allocations[index];
    const struct vt_label *label = &attribution->labels[index];
    size_t count;
    const struct vt_owner *owners = vt_owners_of(attribution, index, &count);
    struct vt_peak_row row = {
        .device_index = allocation->device_index,
        .category = label->category,
        .phase = label->phase,
        .owner = label->owner,
        .module = vt_shown_module(label),
        .operator_name = vt_operator_of(attribution, allocation->stack_id),
        .place = vt_place_of(summing->report->places, vt_telling_stack(attribution, allocation)),
        .bytes = allocation->bytes,
        .blocks = 1};

    for (size_t i = 0; i < count || !i; i++) {
        if (count) {
            row.owner = owners[i].name;
            row.role = owners[i].role;
            row.module = owners[i].module;
            row.bytes = owners[i].share_bytes;
        }
        row.module_class = row.module ? vt_module_class(attribution, row.module) : NULL;
        row.exact_bytes = label->evidence == VT_EVIDENCE_EXACT ? row.bytes : 0;
        add_row(summing, &row);
    }
}

/* What no block is: as one row each. */
static void add_rest(struct summing *summing, const struct vt_device_report *device, uint8_t category)
{
    const struct vt_peak_row row = {.device_index = device->index,
                                    .category = category,
                                    .phase = VT_PHASE_OTHER,
                                    .bytes = device->peak.state.categories[category]};

    if (row.bytes)
        add_row(summing, &row);
}

static int compare_rows(const void *left, const void *right)
{
    const struct vt_peak_row *a = left, *b = right;

    return vt_order(b->bytes, a->bytes);
}

struct vt_peak_rows vt_peak_rows_make(const struct vt_report *report, const struct vt_device_report *device)
{
    struct vt_counted counted =
        vt_counted_at(report->attribution->replay, device->index, device->peak.state.event_index);
    struct vt_peak_rows rows = {0};
    struct summing summing = {.report = report, .rows = &rows};

    add_rest(&summing, device, VT_CATEGORY_CACHED);
    add_rest(&summing, device, VT_CATEGORY_CONTEXT);
    for (size_t i = 0; i < counted.count; i++)
        add_allocation(&summing, counted.items[i]);
    free(counted.items);
    vt_index_free(&summing.index);
    vt_sort(rows.items, rows.count, sizeof *rows.items, compare_rows);
    return rows;
}
