/* Memory by source line: one walk over a device's changes for the maxima, and a sum of what is alive. */
#include "replay/walk.h"
#include "report/annotation.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "report/blocks.h"
#include "report/line_table.h"
#include "report/sources.h"
#include "report/which_file.h"
#include "trace/frameworks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What an item of the line table used on one device. */
struct use {
    struct vt_line_use own, through;
};

struct making {
    const struct vt_report *report;
    struct vt_annotation *annotation;
    struct vt_line_table *table;
    const char *asked;
    size_t top;
    struct use **uses; /* by device, then item */
    uint32_t file;     /* item of the requested file */
};

/* ---- One device ---- */

/* Bytes of an item while the device's changes are walked. */
struct running {
    uint64_t bytes;
    uint32_t since; /* event after which this is the state */
};

struct walk {
    struct making *making;
    struct use *uses;
    size_t count;
    struct running *own, *through; /* by item */
    struct vt_line_use *all;
    struct running all_running;
    size_t span;                         /* that the last event visited is in, or one before */
    uint32_t phase_ends[VT_PHASE_COUNT]; /* 1 + the last event of each phase so far; 0 = none */
};

/* Notes the phases of the events before `event`. */
static void pass_phases(struct walk *walk, uint32_t event)
{
    const struct vt_attribution *attribution = walk->making->report->attribution;

    for (; walk->span < attribution->span_count; walk->span++) {
        const struct vt_span *span = &attribution->spans[walk->span];

        if (span->first_event >= event)
            return;
        walk->phase_ends[span->phase] = span->last_event < event ? span->last_event + 1 : event;
        if (span->last_event >= event)
            return;
    }
}

/* The bytes were there after each event from `since` to the one before `event`. */
static void settle_item(const struct walk *walk, struct running *running, struct vt_line_use *use,
                        uint32_t event)
{
    if (running->bytes) {
        use->peak_bytes = running->bytes > use->peak_bytes ? running->bytes : use->peak_bytes;
        for (int phase = 0; phase < VT_PHASE_COUNT; phase++)
            if (walk->phase_ends[phase] > running->since && running->bytes > use->phase_peaks[phase])
                use->phase_peaks[phase] = running->bytes;
    }
    running->since = event;
}

static void change_item(const struct walk *walk, struct running *running, struct vt_line_use *use,
                        uint32_t event, uint64_t change)
{
    settle_item(walk, running, use, event);
    running->bytes += change;
}

static void change_lines(void *context, uint32_t index, bool begins)
{
    struct walk *walk = context;
    const struct vt_attribution *attribution = walk->making->report->attribution;
    const struct vt_allocation *allocation = &attribution->replay->allocations[index];
    uint32_t event = begins ? allocation->alloc_event : allocation->free_event;
    uint64_t bytes = begins ? allocation->bytes : 0 - allocation->bytes;
    struct vt_stack_lines lines;

    if (!vt_is_grouped(allocation))
        return;
    lines = vt_line_table_read(walk->making->table, vt_telling_stack(attribution, allocation));
    pass_phases(walk, event);
    change_item(walk, &walk->all_running, walk->all, event, bytes);
    change_item(walk, &walk->own[lines.own], &walk->uses[lines.own].own, event, bytes);
    if (lines.own_file != VT_NO_FILE)
        change_item(walk, &walk->own[lines.own_file], &walk->uses[lines.own_file].own, event, bytes);
    for (size_t i = 0; i < lines.through_count; i++)
        change_item(walk, &walk->through[lines.through[i]], &walk->uses[lines.through[i]].through, event,
                    bytes);
}

static void find_peaks(struct walk *walk, int device_index)
{
    const struct vt_replay *replay = walk->making->report->attribution->replay;
    const struct vt_replay_visitor visitor = {.change = change_lines, .context = walk};
    uint32_t end = (uint32_t)replay->trace->event_count;

    vt_replay_walk(replay, device_index, &visitor);
    pass_phases(walk, end);
    settle_item(walk, &walk->all_running, walk->all, end);
    for (size_t i = 0; i < walk->count; i++) {
        settle_item(walk, &walk->own[i], &walk->uses[i].own, end);
        settle_item(walk, &walk->through[i], &walk->uses[i].through, end);
    }
}

static void add_use(struct vt_line_use *use, const struct vt_allocation *allocation, uint8_t category,
                    bool alive)
{
    use->allocations++;
    if (!alive)
        return;
    use->bytes += allocation->bytes;
    use->blocks++;
    use->categories[category] += allocation->bytes;
}

/* Adds every allocation to the counts, and to the bytes if it is alive at the moment shown. */
static void sum_allocations(struct making *making, struct vt_annotated_device *device, struct use *uses)
{
    const struct vt_attribution *attribution = making->report->attribution;
    const struct vt_replay *replay = attribution->replay;
    uint32_t event = device->report->shown->state.event_index;
    int index = device->report->index;

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        uint8_t category = attribution->labels[i].category;
        bool alive = vt_is_counted(allocation, index, event);
        struct vt_stack_lines lines;

        if (allocation->device_index != index || !vt_is_grouped(allocation))
            continue;
        lines = vt_line_table_read(making->table, vt_telling_stack(attribution, allocation));
        device->has_backward |= attribution->labels[i].forward_stack_id != 0;
        add_use(&device->all, allocation, category, alive);
        add_use(&uses[lines.own].own, allocation, category, alive);
        if (lines.own_file != VT_NO_FILE)
            add_use(&uses[lines.own_file].own, allocation, category, alive);
        for (size_t k = 0; k < lines.through_count; k++)
            add_use(&uses[lines.through[k]].through, allocation, category, alive);
    }
}

/* All stacks first: then the number of items is known. */
static void read_stacks(struct making *making)
{
    const struct vt_attribution *attribution = making->report->attribution;
    const struct vt_replay *replay = attribution->replay;

    for (size_t i = 0; i < replay->allocation_count; i++)
        if (vt_is_grouped(&replay->allocations[i]))
            vt_line_table_read(making->table, vt_telling_stack(attribution, &replay->allocations[i]));
}

static struct use *use_of_device(struct making *making, struct vt_annotated_device *device)
{
    struct walk walk = {.making = making, .all = &device->all};

    vt_line_table_items(making->table, &walk.count);
    walk.uses = vt_allocate_zeros(walk.count, sizeof *walk.uses);
    walk.own = vt_allocate_zeros(walk.count, sizeof *walk.own);
    walk.through = vt_allocate_zeros(walk.count, sizeof *walk.through);
    find_peaks(&walk, device->report->index);
    sum_allocations(making, device, walk.uses);
    device->nowhere = walk.uses[VT_NO_FILE].own;
    free(walk.own);
    free(walk.through);
    return walk.uses;
}

/* ---- Files and lines ---- */

static int by_bytes(const struct vt_line_use *a, const struct vt_line_use *b)
{
    return 2 * vt_order(b->bytes, a->bytes) + vt_order(b->peak_bytes, a->peak_bytes);
}

static int compare_files(const void *left, const void *right)
{
    const struct vt_annotated_file *a = left, *b = right;
    int order = by_bytes(&a->own, &b->own);

    return order ? order : strcmp(a->path, b->path);
}

static int compare_weights(const void *left, const void *right)
{
    const struct vt_annotated_line *a = left, *b = right;
    int order = by_bytes(&a->own, &b->own);

    order = order ? order : by_bytes(&a->through, &b->through);
    return order ? order : vt_order_signed(a->line, b->line);
}

static int compare_lines(const void *left, const void *right)
{
    const struct vt_annotated_line *a = left, *b = right;

    return vt_order_signed(a->line, b->line);
}

static void list_lines(const struct making *making, const struct use *uses, struct vt_annotated_file *file)
{
    const struct vt_source_text *source = making->annotation->source;
    size_t item_count, capacity = 0;
    const struct vt_line_item *items = vt_line_table_items(making->table, &item_count);

    file->texts = source->lines;
    file->text_count = source->count;
    file->source = source->state;
    for (size_t i = 1; i < item_count; i++) {
        int32_t line = items[i].line;

        if (items[i].file != making->file || line == VT_WHOLE_FILE || !uses[i].through.allocations)
            continue;
        VT_APPEND(file->lines, file->line_count, capacity,
                  (struct vt_annotated_line){.line = line, .own = uses[i].own, .through = uses[i].through});
        if (line > 0 && (size_t)line <= source->count)
            file->lines[file->line_count - 1].text = source->lines[line - 1];
    }
    if (!file->line_count)
        return;
    vt_sort(file->lines, file->line_count, sizeof *file->lines, compare_weights);
    if (making->top && file->line_count > making->top) {
        file->left_out = file->line_count - making->top;
        file->line_count = making->top;
    }
    vt_sort(file->lines, file->line_count, sizeof *file->lines, compare_lines);
}

static void list_device(const struct making *making, const struct use *uses,
                        struct vt_annotated_device *device)
{
    size_t item_count, capacity = 0;
    const struct vt_line_item *items = vt_line_table_items(making->table, &item_count);

    for (size_t i = 1; i < item_count; i++) {
        bool wanted =
            making->asked ? i == making->file : items[i].line == VT_WHOLE_FILE && uses[i].own.allocations > 0;

        if (wanted)
            VT_APPEND(device->files, device->file_count, capacity,
                      (struct vt_annotated_file){.path = items[i].path,
                                                 .name = vt_short_path(making->report->trace, items[i].path),
                                                 .library = vt_is_library_file(items[i].path),
                                                 .own = uses[i].own,
                                                 .through = uses[i].through});
    }
    if (making->asked) {
        list_lines(making, uses, &device->files[0]);
        return;
    }
    vt_sort(device->files, device->file_count, sizeof *device->files, compare_files);
}

/* ---- All ---- */

/* What files hold on all devices, for a hint. */
static int find_file(struct making *making, struct vt_error_text reason)
{
    size_t count;
    const struct vt_line_item *items = vt_line_table_items(making->table, &count);
    struct vt_file_search search = {
        .report = making->report, .items = items, .count = count, .asked = making->asked};
    int result;

    search.own_bytes = vt_allocate_zeros(count, sizeof *search.own_bytes);
    search.allocates = vt_allocate_zeros(count, sizeof *search.allocates);
    for (size_t d = 0; d < making->annotation->device_count; d++)
        for (size_t i = 0; i < count; i++) {
            search.own_bytes[i] += making->uses[d][i].own.bytes;
            search.allocates[i] |= making->uses[d][i].own.allocations > 0;
        }
    result = vt_file_find(&search, &making->file, reason);
    free(search.own_bytes);
    free(search.allocates);
    return result;
}

static int make_files(struct making *making, struct vt_error_text reason)
{
    struct vt_annotation *annotation = making->annotation;
    size_t item_count;

    making->table = vt_line_table_make(making->report);
    read_stacks(making);
    for (size_t d = 0; d < annotation->device_count; d++)
        making->uses[d] = use_of_device(making, &annotation->devices[d]);
    if (making->asked) {
        int result = find_file(making, reason);

        if (result)
            return result;
        vt_source_read(making->report->trace,
                       vt_line_table_items(making->table, &item_count)[making->file].path,
                       annotation->source);
    }
    for (size_t d = 0; d < annotation->device_count; d++)
        list_device(making, making->uses[d], &annotation->devices[d]);
    return 0;
}

static struct vt_annotation *make_empty(const struct vt_report *report)
{
    struct vt_annotation *annotation = vt_allocate_zeros(1, sizeof *annotation);

    annotation->report = report;
    annotation->device_count = report->device_count;
    annotation->devices = vt_allocate_zeros(report->device_count + 1, sizeof *annotation->devices);
    annotation->source = vt_allocate_zeros(1, sizeof *annotation->source);
    for (size_t d = 0; d < report->device_count; d++)
        annotation->devices[d].report = &report->devices[d];
    return annotation;
}

int vt_annotation_make(const struct vt_report *report, const char *file, size_t top,
                       struct vt_annotation **made, char *error, size_t error_bytes)
{
    struct making making = {.report = report, .annotation = make_empty(report), .asked = file, .top = top};
    int result;

    making.uses = vt_allocate_zeros(report->device_count + 1, sizeof *making.uses);
    making.annotation->has_file = file != NULL;
    result = make_files(&making, (struct vt_error_text){error, error_bytes});
    for (size_t d = 0; d < report->device_count; d++)
        free(making.uses[d]);
    free(making.uses);
    vt_line_table_free(making.table);
    *made = result ? NULL : making.annotation;
    if (result)
        vt_annotation_free(making.annotation);
    return result;
}

void vt_annotation_free(struct vt_annotation *annotation)
{
    if (!annotation)
        return;
    for (size_t d = 0; d < annotation->device_count; d++) {
        for (size_t i = 0; i < annotation->devices[d].file_count; i++)
            free(annotation->devices[d].files[i].lines);
        free(annotation->devices[d].files);
    }
    free(annotation->devices);
    vt_source_free(annotation->source);
    free(annotation->source);
    free(annotation);
}
