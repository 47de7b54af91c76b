#include "view/html/columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/html/placement.h"

#define LEAST_TICK_NS 1000u
#define MOST_TICKS (1u << 24)

const char *const vt_column_blob_names[] = {
#define X(id, name) name,
    VT_COLUMN_BLOBS(X)
#undef X
};

/* ---- Collecting ---- */

static void note_change(struct vt_page_columns *columns, uint32_t event, uint64_t t_ns)
{
    uint64_t tick = t_ns / columns->tick_ns;

    columns->changes[event] = tick < VT_PAGE_NEVER ? (uint32_t)tick : VT_PAGE_NEVER - 1;
}

static int collect(void *context, const void *table_row)
{
    const struct vt_allocation_row *row = table_row;
    const struct vt_block *block = &row->block;
    struct vt_page_columns *columns = context;

    if (row->device_index >= 0 && !strcmp(block->kind, "block"))
        columns->block_devices |= UINT64_C(1) << (row->device_index & 63);
    if (block->freed && block->free_event == block->alloc_event)
        return 0; /* it never counted */
    if (row->device_index >= 0 && !(columns->devices >> (row->device_index & 63) & 1))
        return 0; /* not asked for */
    note_change(columns, block->alloc_event, block->t_ns);
    if (block->freed)
        note_change(columns, block->free_event, row->free_t_ns);
    columns->items[columns->allocation_count++] =
        (struct vt_page_allocation){.alloc_event = block->alloc_event,
                                    .free_event = block->freed ? block->free_event : VT_PAGE_NEVER,
                                    .class_number = vt_dictionary_class(columns->dictionary, row),
                                    .size = vt_row_number(&columns->sizes, &block->bytes),
                                    .address = block->address / VT_ADDRESS_UNIT};
    return columns->sizes.failed ? -ENOMEM : 0;
}

static uint64_t tick_for(uint64_t duration_ns)
{
    uint64_t tick_ns = LEAST_TICK_NS;

    while (duration_ns / tick_ns > MOST_TICKS)
        tick_ns *= 2;
    return tick_ns;
}

/* ---- Blobs ---- */

static void add(struct vt_page_columns *columns, struct vt_blobs *blobs, enum vt_column_blob which,
                enum vt_encoding encoding, uint64_t count, struct vt_bytes *raw)
{
    columns->blobs[which] = vt_blob_add(blobs, encoding, count, raw);
}

/* Numbers the changes: until now `changes` has the time of each. */
static void add_changes(struct vt_page_columns *columns, struct vt_blobs *blobs)
{
    struct vt_bytes events = {0}, times = {0};
    uint64_t next_event = 0;
    uint32_t tick = 0, number = 0;

    for (uint32_t event = 0; event < columns->event_count; event++) {
        uint32_t at = columns->changes[event];

        if (at != VT_PAGE_NEVER) {
            at = at > tick ? at : tick; /* clocks of two threads can be a little apart */
            uint64_t in_file = vt_report_event_number(columns->report, event);

            vt_bytes_varint(&events, in_file - next_event);
            vt_bytes_varint(&times, at - tick);
            tick = at;
            next_event = in_file + 1;
            number++;
        }
        columns->changes[event] = number ? number - 1 : 0;
    }
    columns->change_count = number;
    add(columns, blobs, VT_BLOB_CHANGE_EVENT, VT_ENCODING_NUMBERS, number, &events);
    add(columns, blobs, VT_BLOB_CHANGE_TIME, VT_ENCODING_NUMBERS, number, &times);
}

static void add_begins(struct vt_page_columns *columns, struct vt_blobs *blobs)
{
    struct vt_bytes raw = {0};
    uint32_t last = 0;

    for (size_t i = 0; i < columns->allocation_count; i++) {
        uint32_t begin = columns->changes[columns->items[i].alloc_event];

        vt_bytes_varint(&raw, begin - last);
        last = begin;
    }
    add(columns, blobs, VT_BLOB_BEGIN, VT_ENCODING_NUMBERS, columns->allocation_count, &raw);
}

static int compare_sizes(const void *left, const void *right)
{
    return vt_order(**(const uint64_t *const *)left, **(const uint64_t *const *)right);
}

/* The sizes in order; allocations get the rank of theirs. -ENOMEM. */
static int add_sizes(struct vt_page_columns *columns, struct vt_blobs *blobs)
{
    size_t count = columns->sizes.count;
    const uint64_t **sorted = malloc((count + 1) * sizeof *sorted);
    uint32_t *ranks = malloc((count + 1) * sizeof *ranks);
    struct vt_bytes raw = {0};
    uint64_t last = 0;

    if (!sorted || !ranks) {
        free(sorted);
        free(ranks);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        sorted[i] = &columns->sizes.words[i];
    qsort(sorted, count, sizeof *sorted, compare_sizes);
    for (size_t i = 0; i < count; i++) {
        ranks[sorted[i] - columns->sizes.words] = (uint32_t)i;
        vt_put_delta(&raw, *sorted[i], &last);
    }
    for (size_t i = 0; i < columns->allocation_count; i++)
        columns->items[i].size = ranks[columns->items[i].size];
    free(sorted);
    free(ranks);
    add(columns, blobs, VT_BLOB_SIZES, VT_ENCODING_DELTAS, count, &raw);
    return 0;
}

static uint64_t value_of(const struct vt_page_columns *columns, const struct vt_page_allocation *item,
                         enum vt_column_blob which)
{
    switch (which) {
    case VT_BLOB_CLASS:
        return item->class_number;
    case VT_BLOB_SIZE:
        return item->size;
    default: /* life */
        return item->free_event == VT_PAGE_NEVER
                   ? 0
                   : columns->changes[item->free_event] - columns->changes[item->alloc_event];
    }
}

/* The class is predicted from the four before it, all else from this class and the three before it. -ENOMEM.
 */
static int add_predicted(struct vt_page_columns *columns, struct vt_blobs *blobs, enum vt_column_blob which)
{
    struct vt_predictor *predictor = calloc(1, sizeof *predictor);
    struct vt_bytes raw = {0};
    uint32_t classes[5] = {0}; /* this one, then those before it */

    if (!predictor)
        return -ENOMEM;
    for (size_t i = 0; i < columns->allocation_count; i++) {
        const struct vt_page_allocation *item = &columns->items[i];

        memmove(classes + 1, classes, 4 * sizeof *classes);
        classes[0] = item->class_number;
        vt_put_predicted(&raw, predictor, vt_context_slot(classes + (which == VT_BLOB_CLASS)),
                         value_of(columns, item, which));
    }
    free(predictor);
    add(columns, blobs, which, VT_ENCODING_PREDICTED, columns->allocation_count, &raw);
    return 0;
}

/* Addresses, and for each class where its allocations lie. -ENOMEM. */
static int add_addresses(struct vt_page_columns *columns, struct vt_blobs *blobs)
{
    struct vt_bytes raw = {0}, places = {0};
    size_t classes = columns->dictionary->classes.count;
    int result = vt_page_addresses_make(columns, &raw);

    add(columns, blobs, VT_BLOB_ADDRESS, VT_ENCODING_PLACED, columns->allocation_count, &raw);
    for (size_t i = 0; i < classes; i++)
        vt_bytes_varint(&places, vt_dictionary_place(columns->dictionary, (uint32_t)i));
    add(columns, blobs, VT_BLOB_PLACE, VT_ENCODING_NUMBERS, classes, &places);
    return result;
}

/* ---- Phases ---- */

struct phases {
    const struct vt_report *report;
    struct vt_bytes first_events, kinds, steps, times;
    uint64_t last_event, last_step, last_t_ns, count;
};

static int collect_phase(void *context, const void *table_row)
{
    const struct vt_phase_row *row = table_row;
    struct phases *phases = context;

    vt_put_delta(&phases->first_events, vt_report_event_number(phases->report, row->first_event),
                 &phases->last_event);
    vt_bytes_varint(&phases->kinds, row->phase);
    vt_put_delta(&phases->steps, row->step, &phases->last_step);
    vt_put_delta(&phases->times, row->t_ns, &phases->last_t_ns);
    phases->count++;
    return 0;
}

static int add_phases(struct vt_page_columns *columns, struct vt_tables *tables, struct vt_blobs *blobs)
{
    struct phases phases = {.report = columns->report};
    int result = vt_table_walk(tables, VT_TABLE_PHASES, collect_phase, &phases);

    add(columns, blobs, VT_BLOB_PHASE_FIRST_EVENT, VT_ENCODING_DELTAS, phases.count, &phases.first_events);
    add(columns, blobs, VT_BLOB_PHASE_KIND, VT_ENCODING_NUMBERS, phases.count, &phases.kinds);
    add(columns, blobs, VT_BLOB_PHASE_STEP, VT_ENCODING_DELTAS, phases.count, &phases.steps);
    add(columns, blobs, VT_BLOB_PHASE_T, VT_ENCODING_DELTAS, phases.count, &phases.times);
    return result;
}

/* ---- All ---- */

int vt_page_columns_make(const struct vt_report *report, struct vt_tables *tables,
                         struct vt_dictionary *dictionary, struct vt_blobs *blobs,
                         struct vt_page_columns *columns)
{
    static const enum vt_column_blob predicted[] = {VT_BLOB_CLASS, VT_BLOB_SIZE, VT_BLOB_LIFE};
    uint64_t rows = vt_table_rows(tables, VT_TABLE_ALLOCATIONS);
    int result;

    *columns = (struct vt_page_columns){.tick_ns = tick_for(report->duration_ns),
                                        .event_count = vt_table_rows(tables, VT_TABLE_EVENTS),
                                        .report = report,
                                        .dictionary = dictionary,
                                        .sizes.width = 1};
    columns->items = malloc((rows + 1) * sizeof *columns->items);
    columns->changes = malloc((columns->event_count + 1) * sizeof *columns->changes);
    if (!columns->items || !columns->changes)
        return -ENOMEM;
    for (size_t i = 0; i < report->device_count; i++)
        columns->devices |= UINT64_C(1) << (report->devices[i].index & 63);
    memset(columns->changes, 0xff, (columns->event_count + 1) * sizeof *columns->changes);
    result = vt_table_walk(tables, VT_TABLE_ALLOCATIONS, collect, columns);
    if (result)
        return result;
    add_changes(columns, blobs);
    add_begins(columns, blobs);
    result = add_addresses(columns, blobs);
    if (!result)
        result = add_sizes(columns, blobs);
    for (size_t i = 0; !result && i < sizeof predicted / sizeof *predicted; i++)
        result = add_predicted(columns, blobs, predicted[i]);
    if (!result)
        result = add_phases(columns, tables, blobs);
    free(columns->items);
    columns->items = NULL;
    vt_word_rows_free(&columns->sizes);
    return !result && blobs->data.failed ? -ENOMEM : result;
}

void vt_page_columns_free(struct vt_page_columns *columns)
{
    free(columns->items);
    free(columns->changes);
    vt_word_rows_free(&columns->sizes);
    columns->items = NULL;
    columns->changes = NULL;
}
