/* Matches the groups of two instants. */
#include "findings/diff.h"

#include "base/index.h"
#include "base/module_names.h"
#include "findings/diff_names.h"
#include "trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/sort.h"

#define MOST_PAIRS 4000000u /* of lines of one function: above it, they are paired in order */

/* A group of one side with what it is matched by. */
struct entry {
    const struct vt_group *group;
    char *key;
    int32_t line; /* from the function's beginning */
    bool of_b;
};

struct entries {
    struct entry *items;
    size_t count;
    enum vt_by by;
};

static int compare_rows(const void *left, const void *right)
{
    const struct vt_diff_row *a = left, *b = right;

    return a->change_bytes != b->change_bytes ? vt_order(b->change_bytes, a->change_bytes)
                                              : strcmp(a->name, b->name);
}

/* A trace's functions, by file, name, and where they begin. */
struct functions {
    const struct vt_trace_code **items;
    size_t count;
};

static int compare_functions(const void *left, const void *right)
{
    const struct vt_trace_code *a = *(const struct vt_trace_code *const *)left;
    const struct vt_trace_code *b = *(const struct vt_trace_code *const *)right;
    int order = strcmp(a->file, b->file);

    order = order ? order : strcmp(a->name, b->name);
    return order ? order : vt_order_signed(a->first_line, b->first_line);
}

static void list_functions(const struct vt_trace *trace, struct functions *functions)
{
    *functions =
        (struct functions){.items = vt_allocate_zeros(trace->code_count + 1, sizeof *functions->items)};
    for (size_t i = 0; i < trace->code_count; i++)
        if (trace->codes[i].file && trace->codes[i].name && trace->codes[i].first_line > 0)
            functions->items[functions->count++] = &trace->codes[i];
    vt_sort(functions->items, functions->count, sizeof *functions->items, compare_functions);
}

/* For vt_lower_bound: finds the first function that is not before a line. */
static int compare_with_line(const void *function, const void *line)
{
    int order = compare_functions(function, line);

    return order ? order : -1;
}

/* Where the function of a line begins, as the trace has it; 0 = not known. An edit above a function moves
 * all of it. */
static int32_t first_line(const struct functions *functions, const struct vt_group *group)
{
    const struct vt_frame *frame = &group->place->frame;
    const struct vt_trace_code line = {
        .file = frame->file, .name = frame->function, .first_line = frame->line};
    const struct vt_trace_code *key = &line, *found;
    size_t after = vt_lower_bound(functions->items, functions->count, sizeof key, &key, compare_with_line);

    if (!after)
        return 0;
    found = functions->items[after - 1];
    return strcmp(found->file, line.file) || strcmp(found->name, line.name) ? 0 : found->first_line;
}

/* Without numbers of lines: "model.py:141 forward ← train.py:88 main" is "model.py forward ← train.py main".
 */
static char *without_lines(const char *stack)
{
    char *text = vt_copy_text(stack), *end = text;

    for (const char *at = stack; *at;) {
        size_t digits = at[0] == ':' ? strspn(at + 1, "0123456789") : 0;

        if (digits)
            at += 1 + digits;
        else
            *end++ = *at++;
    }
    *end = '\0';
    return text;
}

static char *line_key(const struct vt_group *group)
{
    const struct vt_frame *frame = &group->place->frame;
    const char *slash = strrchr(frame->file, '/');

    return vt_print_text("%s\n%s", slash ? slash + 1 : frame->file, frame->function);
}

static void set_entry(const struct functions *functions, const struct vt_group *group, enum vt_by by,
                      struct entry *entry)
{
    entry->group = group;
    if (by == VT_BY_LINE && group->place && group->place->frame.file[0]) {
        entry->line = group->place->frame.line - first_line(functions, group);
        entry->key = line_key(group);
    } else {
        entry->key = by == VT_BY_STACK ? without_lines(group->name) : vt_module_plain_name(group->name);
    }
}

static void add_entries(const struct vt_trace *trace, const struct vt_groups *groups, bool of_b,
                        struct entries *entries)
{
    struct functions functions = {0};

    if (entries->by == VT_BY_LINE)
        list_functions(trace, &functions);
    for (size_t i = 0; i < groups->count; i++) {
        struct entry *entry = &entries->items[entries->count++];

        *entry = (struct entry){.of_b = of_b};
        set_entry(&functions, &groups->items[i], entries->by, entry);
    }
    free(functions.items);
}

/* By key, then side, then position in the file. */
static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = strcmp(a->key, b->key);

    if (order || a->of_b != b->of_b)
        return order ? order : a->of_b - b->of_b;
    if (a->group->place && b->group->place &&
        (order = strcmp(a->group->place->frame.file, b->group->place->frame.file)))
        return order;
    order = 2 * vt_order_signed(a->line, b->line) + vt_order(a->group->phase, b->group->phase);
    return order ? order : strcmp(a->group->name, b->group->name);
}

static void set_side(struct vt_diff_side *side, const struct vt_group *group)
{
    side->group = group;
    if (!group)
        return;
    side->line = group->place ? group->place->frame.line : 0;
    side->bytes = group->bytes;
    side->blocks = group->blocks;
    memcpy(side->categories, group->categories, sizeof side->categories);
}

static uint8_t kind_of(const struct vt_diff_row *row)
{
    if (!row->a.blocks)
        return VT_DIFF_ADDED;
    if (!row->b.blocks)
        return VT_DIFF_REMOVED;
    return row->b.bytes > row->a.bytes   ? VT_DIFF_GROWN
           : row->b.bytes < row->a.bytes ? VT_DIFF_SHRUNK
                                         : VT_DIFF_MOVED;
}

/* Adds a row, unless both sides hold the same. The array has space for one row of every entry. */
static void add_row(struct vt_diff_rows *rows, struct vt_diff_row row, const char *name)
{
    vt_diff_measure(&row);
    if (!row.change_bytes)
        return;
    row.members = 1;
    row.kind = kind_of(&row);
    row.name = vt_copy_text(name);
    rows->items[rows->count++] = row;
}

static void add_pair(struct vt_diff_rows *rows, const struct entry *a, const struct entry *b)
{
    const struct vt_group *shown = (b ? b : a)->group;
    struct vt_diff_row row = {.place = shown->place, .phase = shown->phase};
    set_side(&row.a, a ? a->group : NULL);
    set_side(&row.b, b ? b->group : NULL);
    add_row(rows, row, shown->name);
}

/* How much two entries of one key are alike; 0 = not at all. Lines of one function, and stacks through the
 * same functions, count as the same only if something else agrees; what they hold weighs more than their
 * position. */
static uint32_t likeness(const struct entries *entries, const struct entry *a, const struct entry *b)
{
    bool phase = a->group->phase == b->group->phase;
    bool category = vt_largest_category(a->group->categories) == vt_largest_category(b->group->categories);
    bool name = !strcmp(a->group->name, b->group->name);
    uint32_t same = entries->by != VT_BY_LINE && entries->by != VT_BY_STACK;

    if (!phase && !category)
        return 0;
    same += entries->by == VT_BY_LINE && a->line == b->line ? 2 : 0;
    same += a->group->bytes == b->group->bytes ? 3 : 0;
    same += category ? 3 : 0;
    if (!same && !name)
        return 0;
    return same + (name ? 4 : 0) + (phase ? 8 : 0);
}

/* Pairs the entries of one key in their order so that the pairs are as alike as possible: best[i][j] is the
 * highest likeness of the last i of A and the last j of B. */
static void pair_alike(const struct entries *entries, const struct entry *a, size_t a_count,
                       const struct entry *b, size_t b_count, struct vt_diff_rows *rows)
{
    size_t width = b_count + 1, i = a_count, j = b_count;
    uint32_t *best = vt_allocate_zeros((a_count + 1) * width, sizeof *best);

    for (i = 1; i <= a_count; i++) {
        for (j = 1; j <= b_count; j++) {
            uint32_t one = best[(i - 1) * width + j], other = best[i * width + j - 1];
            uint32_t pair =
                best[(i - 1) * width + j - 1] + likeness(entries, &a[a_count - i], &b[b_count - j]);

            one = other > one ? other : one;
            best[i * width + j] = pair > one ? pair : one;
        }
    }
    for (i = a_count, j = b_count; i || j;) {
        uint32_t alike = i && j ? likeness(entries, &a[a_count - i], &b[b_count - j]) : 0;

        if (alike && best[i * width + j] == best[(i - 1) * width + j - 1] + alike)
            add_pair(rows, &a[a_count - i--], &b[b_count - j--]);
        else if (i && (!j || best[i * width + j] == best[(i - 1) * width + j]))
            add_pair(rows, &a[a_count - i--], NULL);
        else
            add_pair(rows, NULL, &b[b_count - j--]);
    }
    free(best);
}

static void match_run(const struct entries *entries, const struct entry *run, size_t count,
                      struct vt_diff_rows *rows)
{
    size_t a_count = 0, b_count;

    while (a_count < count && !run[a_count].of_b)
        a_count++;
    b_count = count - a_count;
    if (b_count && a_count < MOST_PAIRS / b_count) {
        pair_alike(entries, run, a_count, run + a_count, b_count, rows);
        return;
    }
    for (size_t i = 0; i < a_count || i < b_count; i++)
        add_pair(rows, i < a_count ? &run[i] : NULL, i < b_count ? &run[a_count + i] : NULL);
}

static void match_groups(const struct vt_diff *diff, enum vt_by by, const struct vt_groups *a,
                         const struct vt_groups *b, struct vt_diff_rows *rows)
{
    size_t most = a->count + b->count;
    struct entries entries = {.items = vt_allocate_zeros(most + 1, sizeof *entries.items), .by = by};
    rows->items = vt_allocate_zeros(most + 1, sizeof *rows->items);

    add_entries(diff->a->trace, a, false, &entries);
    add_entries(diff->b->trace, b, true, &entries);
    vt_sort(entries.items, entries.count, sizeof *entries.items, compare_entries);
    for (size_t i = 0, end; i < entries.count; i = end) {
        for (end = i + 1; end < entries.count && !strcmp(entries.items[end].key, entries.items[i].key);)
            end++;
        match_run(&entries, &entries.items[i], end - i, rows);
    }
    for (size_t i = 0; i < entries.count; i++)
        free(entries.items[i].key);
    free(entries.items);
}

/* For a whole device, with the cache and the context, which no group has. */
static void match_categories(const struct vt_diff_device *device, struct vt_diff_rows *rows)
{
    rows->items = vt_allocate_zeros(VT_CATEGORY_COUNT, sizeof *rows->items);
    for (int c = 0; c < VT_CATEGORY_COUNT; c++) {
        struct vt_diff_row row = {0};
        row.a.bytes = row.a.categories[c] = device->a.state.categories[c];
        row.b.bytes = row.b.categories[c] = device->b.state.categories[c];
        row.a.blocks = row.a.bytes > 0;
        row.b.blocks = row.b.bytes > 0;
        add_row(rows, row, vt_category_name(c));
    }
}

static void compare_device(const struct vt_diff *diff, unsigned groups, struct vt_diff_device *device)
{
    for (int by = 0; by < VT_BY_COUNT; by++) {
        struct vt_diff_rows *rows = &device->rows[by];
        const struct vt_groups *a = &device->a.groups[by], *b = &device->b.groups[by];

        if (by == VT_BY_CATEGORY)
            match_categories(device, rows);
        else if (groups & 1u << by)
            match_groups(diff, (enum vt_by)by, a, b, rows);
        if (by == VT_BY_MODULE || by == VT_BY_OWNER)
            vt_diff_collapse(rows, (enum vt_by)by, a, b);
        vt_sort(rows->items, rows->count, sizeof *rows->items, compare_rows);
        device->differs |= rows->count > 0;
    }
}

static void set_instant(const struct vt_report *report, const struct vt_device_report *device,
                        struct vt_instant *instant)
{
    if (!device)
        return;
    *instant = *device->shown;
    instant->state.event_index = (uint32_t)vt_report_event_number(report, instant->state.event_index);
}

struct vt_diff *vt_diff_make(const struct vt_report *a, const struct vt_report *b, unsigned groups)
{
    struct vt_diff *diff = vt_allocate_zeros(1, sizeof *diff);

    diff->a = a;
    diff->b = b;
    diff->devices = vt_allocate_zeros(VT_MAX_DEVICES, sizeof *diff->devices);
    for (int index = 0; index < (int)VT_MAX_DEVICES; index++) {
        const struct vt_device_report *of_a = vt_report_device(a, index), *of_b = vt_report_device(b, index);
        struct vt_diff_device *device = &diff->devices[diff->device_count];

        if (!of_a && !of_b)
            continue;
        diff->device_count++;
        device->index = index;
        device->name = (of_a ? of_a : of_b)->name;
        set_instant(a, of_a, &device->a);
        set_instant(b, of_b, &device->b);
        compare_device(diff, groups, device);
    }
    return diff;
}

void vt_diff_free(struct vt_diff *diff)
{
    if (!diff)
        return;
    for (size_t i = 0; diff->devices && i < diff->device_count; i++)
        for (int by = 0; by < VT_BY_COUNT; by++) {
            struct vt_diff_rows *rows = &diff->devices[i].rows[by];
            for (size_t k = 0; k < rows->count; k++)
                free(rows->items[k].name);
            free(rows->items);
        }
    free(diff->devices);
    free(diff);
}
