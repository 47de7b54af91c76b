/* The comparison as text: who is compared, a sentence for each device, tables of what changed. */
#include "base/index.h"
#include "view/text/table.h"
#include "view/text/text.h"
#include "view/text/views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CATEGORY_ROWS 4 /* without --full */
#define ROWS 10
#define BY_ROWS 30

/* "A  run.vrt, at the peak: at step 3, in backward (1.2 s after start)". */
/* A simulated peak must not pass for a measured one. */
static void print_simulated(struct vt_print *print, const char *a, const char *b)
{
    if (a && b)
        vt_print_paragraph(print, 0, 2, "Both are simulated: A on %s, B on %s.", a, b);
    else if (a || b)
        vt_print_paragraph(print, 0, 2, VT_ALARM "%s is simulated (%s), %s was measured on a GPU." VT_RESET,
                           a ? "A" : "B", a ? a : b, a ? "B" : "A");
}

static void side_line(struct vt_print *print, const char *side, const struct vt_report *report,
                      const struct vt_instant *instant)
{
    const char *when =
        instant && instant->state.present ? VT_WHEN(report, &instant->state) : "no memory was held";
    const struct vt_loss *worst = vt_worst_loss(&report->facts);

    vt_print_paragraph(print, 2, 5, VT_BOLD "%s" VT_RESET "  %s · %s: %s", side, report->facts.path,
                       report->at_label, when);
    if (worst)
        vt_print_paragraph(print, 5, 5, VT_ALARM "%s" VT_RESET ": the figures below are partial",
                           worst->text);
}

/* "GPU 0: 1.23 GiB in use → 1.40 GiB, +174.00 MiB, +14.1 %." */
static void print_verdict(struct vt_print *print, const struct vt_diff_device *device)
{
    uint64_t a = device->a.state.used_bytes, b = device->b.state.used_bytes;
    FILE *out = print->paragraph;

    fprintf(out, "GPU %d: ", device->index);
    if (!device->differs) {
        fprintf(out, "no difference, %s in use.", VT_BYTES(a));
    } else if (a == b) {
        fprintf(out, "%s in both, but with a different composition.", VT_BYTES(a));
    } else {
        fprintf(out, "%s in use in A, %s in B: " VT_BOLD "%s" VT_RESET, VT_BYTES(a), VT_BYTES(b),
                VT_CHANGE(a, b));
        if (a)
            fprintf(out, ", %s%.1f %%", b > a ? "+" : "−", 100.0 * (double)vt_distance(a, b) / (double)a);
        fputc('.', out);
    }
    vt_end_paragraph(print, 0, 0);
}

static void change_cells(struct vt_table *table, uint64_t a, uint64_t b)
{
    vt_table_cells(table, a ? VT_BYTES(a) : "–", b ? VT_BYTES(b) : "–", VT_CHANGE(a, b));
}

/* "activation +148.00 KiB, gradient +64.00 KiB": the largest changes first; the name alone if only one
 * category changed. */
static void categories_cell(struct vt_table *table, const uint64_t a[VT_CATEGORY_COUNT],
                            const uint64_t b[VT_CATEGORY_COUNT])
{
    uint64_t left[VT_CATEGORY_COUNT], kinds = 0;
    char text[256] = "";
    size_t used = 0;

    for (int c = 0; c < VT_CATEGORY_COUNT; c++) {
        left[c] = vt_distance(a[c], b[c]);
        kinds += left[c] > 0;
    }
    for (unsigned c; left[c = vt_largest_category(left)] && used + 64 < sizeof text; left[c] = 0) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s" VT_LABEL "%s%s", used ? ", " : "",
                             VT_LABEL_OF(c), kinds > 1 ? " " : "", kinds > 1 ? VT_CHANGE(a[c], b[c]) : "");
    }
    vt_table_cells(table, text);
}

static void rest_row(struct vt_table *table, const struct vt_diff_rows *rows, size_t shown)
{
    uint64_t a = 0, b = 0;

    if (shown >= rows->count)
        return;
    for (size_t i = shown; i < rows->count; i++) {
        a += rows->items[i].a.bytes;
        b += rows->items[i].b.bytes;
    }
    vt_table_cell(table, VT_DIM "… %zu more" VT_RESET, rows->count - shown);
    change_cells(table, a, b);
    vt_table_end_row(table);
}

static void category_table(struct vt_print *print, const struct vt_diff_device *device)
{
    static const struct vt_print_column columns[] = {{"By category", .minimum = 10},
                                                     {"A", .right = true},
                                                     {"B", .right = true},
                                                     {"change", .right = true}};
    const struct vt_diff_rows *rows = &device->rows[VT_BY_CATEGORY];
    struct vt_table table;

    if (!rows->count)
        return;
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 4);
    for (size_t i = 0; i < rows->count && i < vt_text_rows(print, CATEGORY_ROWS, rows->count); i++) {
        unsigned c = 0;

        while (strcmp(rows->items[i].name, vt_category_name(c)))
            c++;
        if (c == VT_CATEGORY_CONTEXT) /* what the GPU had in use at the start */
            vt_table_cells(&table, "context, other processes");
        else
            vt_table_cell(&table, VT_LABEL, VT_LABEL_OF(c));
        change_cells(&table, rows->items[i].a.bytes, rows->items[i].b.bytes);
    }
    vt_table_print(&table, print);
}

static const char *nameless_label(enum vt_by by)
{
    return by == VT_BY_MODULE || by == VT_BY_KIND ? "outside any module" : "no name known";
}

static void name_cell(struct vt_table *table, const struct vt_diff_row *row, enum vt_by by)
{
    if (!row->name[0])
        vt_table_cell(table, VT_DIM "%s" VT_RESET, nameless_label(by));
    else if (row->a.line && row->b.line && row->a.line != row->b.line)
        vt_table_cell(table, "%s (was line %d)", row->name, (int)row->a.line);
    else if (row->members > 1)
        vt_table_cell(table, "%s (%" PRIu64 ")", row->name, row->members);
    else
        vt_table_cells(table, row->name);
}

/* Grown and shrunk show in the change. */
static const char *kind_word(const struct vt_diff_row *row)
{
    return row->kind == VT_DIFF_GROWN || row->kind == VT_DIFF_SHRUNK ? "" : vt_diff_kind_name(row->kind);
}

static void row_table(struct vt_print *print, const struct vt_diff_device *device, enum vt_by by,
                      const char *title, size_t most)
{
    const struct vt_print_column columns[] = {
        {title, .cut = by == VT_BY_STACK ? VT_CUT_END : VT_CUT_PARTS, .minimum = 24},
        {"A", .right = true, .drop = 2},
        {"B", .right = true, .drop = 2},
        {"change", .right = true},
        {"", .drop = 3},
        {"of", .minimum = 10},
        {by == VT_BY_LINE ? "made in" : "", .drop = 4}};
    const struct vt_diff_rows *rows = &device->rows[by];
    struct vt_table table;
    size_t shown = rows->count < most ? rows->count : most;

    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 7);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_diff_row *row = &rows->items[i];

        name_cell(&table, row, by);
        change_cells(&table, row->a.bytes, row->b.bytes);
        vt_table_cells(&table, kind_word(row));
        categories_cell(&table, row->a.categories, row->b.categories);
        vt_table_cells(&table, by == VT_BY_LINE ? vt_phase_name(row->phase) : "");
    }
    rest_row(&table, rows, shown);
    vt_table_print(&table, print);
}

/* ---- Modules and owners, folded: a larger batch changes all layers alike ---- */

struct folded {
    struct vt_module_families families[VT_DIFF_KINDS];
    size_t next[VT_DIFF_KINDS]; /* not shown yet; families are sorted by bytes */
};

/* Folds the rows of one kind; bytes are the change. A category counts only if it changed in the row's
 * direction. */
static void fold_kind(const struct vt_diff_rows *rows, unsigned kind, struct vt_module_families *families)
{
    struct vt_groups groups = {.items = vt_allocate_zeros(rows->count, sizeof *groups.items)};

    for (size_t i = 0; i < rows->count; i++) {
        const struct vt_diff_row *row = &rows->items[i];
        struct vt_group *group = &groups.items[groups.count];
        bool less = row->b.bytes < row->a.bytes;
        const uint64_t *from = less ? row->b.categories : row->a.categories;
        const uint64_t *to = less ? row->a.categories : row->b.categories;

        if (row->kind != kind || !row->name[0])
            continue;
        group->name = row->name;
        group->bytes = row->change_bytes;
        for (int c = 0; c < VT_CATEGORY_COUNT; c++)
            group->categories[c] = to[c] > from[c] ? to[c] - from[c] : 0;
        groups.count++;
    }
    vt_fold_modules(&groups, families);
    free(groups.items);
}

static const struct vt_module_family *next_family(struct folded *folded, unsigned *kind)
{
    const struct vt_module_family *largest = NULL;

    for (unsigned k = 0; k < VT_DIFF_KINDS; k++) {
        const struct vt_module_family *family = &folded->families[k].items[folded->next[k]];

        if (folded->next[k] < folded->families[k].count && (!largest || family->bytes > largest->bytes)) {
            largest = family;
            *kind = k;
        }
    }
    if (largest)
        folded->next[*kind]++;
    return largest;
}

static bool is_less(unsigned kind)
{
    return kind == VT_DIFF_REMOVED || kind == VT_DIFF_SHRUNK;
}

static void change_cell(struct vt_table *table, unsigned kind, uint64_t bytes)
{
    vt_table_cells(table, kind == VT_DIFF_MOVED ? VT_BYTES(bytes)
                          : is_less(kind)       ? VT_CHANGE(bytes, 0)
                                                : VT_CHANGE(0, bytes));
}

static void family_row(struct vt_table *table, const struct vt_module_family *family, unsigned kind)
{
    static const uint64_t nothing[VT_CATEGORY_COUNT];
    bool less = is_less(kind);

    vt_table_cells(table, family->name);
    if (family->members == 1)
        vt_table_cells(table, "");
    else if (family->same)
        vt_table_cell(table, "%" PRIu64 " × %s", family->members, VT_BYTES(family->bytes / family->members));
    else
        vt_table_cell(table, "%" PRIu64 " of them", family->members);
    change_cell(table, kind, family->bytes);
    vt_table_cells(table, vt_diff_kind_name(kind));
    categories_cell(table, less ? family->categories : nothing, less ? nothing : family->categories);
}

static void nameless_row(struct vt_table *table, const struct vt_diff_rows *rows, enum vt_by by)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct vt_diff_row *row = &rows->items[i];

        if (row->name[0])
            continue;
        vt_table_cell(table, VT_DIM "%s" VT_RESET, nameless_label(by));
        vt_table_cells(table, "");
        change_cell(table, row->kind, row->change_bytes);
        vt_table_cells(table, vt_diff_kind_name(row->kind));
        categories_cell(table, row->a.categories, row->b.categories);
    }
}

/* True if any family has several members. */
static bool fold_all(const struct vt_diff_rows *rows, struct folded *folded)
{
    bool several = false;

    for (unsigned k = 0; k < VT_DIFF_KINDS; k++) {
        fold_kind(rows, k, &folded->families[k]);
        for (size_t i = 0; i < folded->families[k].count; i++)
            several |= folded->families[k].items[i].members > 1;
    }
    return several;
}

/* Names that differ only in numbers and changed by the same kind share a row; the nameless row comes last. */
static void folded_table(struct vt_print *print, const struct vt_diff_rows *rows, enum vt_by by, size_t most)
{
    const struct vt_module_family *family;
    struct folded folded = {0};
    struct vt_table table;
    char title[32];
    unsigned kind;
    size_t shown = 0;
    bool several = fold_all(rows, &folded);
    const struct vt_print_column columns[] = {{title, .cut = VT_CUT_PARTS, .minimum = 24},
                                              {several ? "each" : "", .right = true, .drop = 1},
                                              {"change", .right = true},
                                              {.title = ""},
                                              {"of", .minimum = 10}};

    snprintf(title, sizeof title, "By %s", vt_by_name(by));
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 5);
    while ((family = next_family(&folded, &kind)))
        if (shown++ < most)
            family_row(&table, family, kind);
    if (shown > most) {
        vt_table_cell(&table, VT_DIM "… %zu more, see %s%s" VT_RESET, shown - most,
                      print->style->brief ? "by=" : "--by ", vt_by_name(by));
        vt_table_end_row(&table);
    }
    nameless_row(&table, rows, by);
    vt_table_print(&table, print);
    for (unsigned k = 0; k < VT_DIFF_KINDS; k++)
        vt_module_families_free(&folded.families[k]);
}

/* ---- The page ---- */

static bool has_names(const struct vt_diff_rows *rows)
{
    return rows->count > 1 || (rows->count && rows->items[0].name[0]);
}

/* Modules and owners only if some have names: a nameless row alone repeats the categories. */
static void device_tables(struct vt_print *print, const struct vt_diff_device *device)
{
    int by = print->style->by;
    size_t most = by < 0 ? vt_text_rows(print, 4, ROWS) : vt_text_rows(print, BY_ROWS, BY_ROWS);
    char title[32];

    if (by < 0 || by == VT_BY_CATEGORY)
        category_table(print, device);
    if (by == VT_BY_CATEGORY || (by >= 0 && !device->rows[by].count))
        return;
    if (by >= 0) {
        snprintf(title, sizeof title, "By %s", vt_by_name((enum vt_by)by));
        row_table(print, device, (enum vt_by)by, title, most);
        return;
    }
    if (has_names(&device->rows[VT_BY_MODULE]))
        folded_table(print, &device->rows[VT_BY_MODULE], VT_BY_MODULE, most);
    if (has_names(&device->rows[VT_BY_OWNER]) &&
        (print->style->full || print->style->brief || print->style->top))
        folded_table(print, &device->rows[VT_BY_OWNER], VT_BY_OWNER, most);
    if (device->rows[VT_BY_LINE].count)
        row_table(print, device, VT_BY_LINE, "By line", most);
}

void vt_diff_text(const struct vt_diff *diff, const struct vt_view_style *style, FILE *out)
{
    const struct vt_diff_device *first = diff->device_count ? &diff->devices[0] : NULL;
    struct vt_print print;

    vt_print_begin(&print, style, NULL);
    if (!style->brief)
        fprintf(print.stream, VT_BOLD "vramtrace diff" VT_RESET "\n");
    print_simulated(&print, diff->a->facts.simulated, diff->b->facts.simulated);
    side_line(&print, "A", diff->a, first ? &first->a : NULL);
    side_line(&print, "B", diff->b, first ? &first->b : NULL);
    if (!first)
        vt_print_paragraph(&print, 0, 0, "\nNo GPU memory was used in either run.");
    for (size_t i = 0; i < diff->device_count; i++) {
        fputc('\n', print.stream);
        print_verdict(&print, &diff->devices[i]);
        if (diff->devices[i].differs)
            device_tables(&print, &diff->devices[i]);
    }
    vt_print_finish(&print, out);
}
