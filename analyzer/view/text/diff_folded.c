/* Modules and owners in the comparison's text, folded: a larger batch changes all layers alike. */
#include "view/text/diff.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct folded {
    struct vt_module_families families[VT_DIFF_KINDS];
    size_t next[VT_DIFF_KINDS]; /* to be shown; families are in order of their bytes */
};

/* What changed of the rows of one kind, as groups; bytes are how far the sides are apart. Each category
 * counts as far as it goes the row's way. */
static int fold_kind(const struct vt_diff_rows *rows, unsigned kind, struct vt_module_families *families)
{
    struct vt_groups groups = {.items = calloc(rows->count + 1, sizeof *groups.items)};
    int result;

    if (!groups.items)
        return -1;
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
    result = vt_fold_modules(&groups, families);
    free(groups.items);
    return result;
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

static void change_cell(struct vt_table *table, unsigned kind, uint64_t bytes)
{
    bool less = kind == VT_DIFF_REMOVED || kind == VT_DIFF_SHRUNK;
    char text[32];

    if (kind == VT_DIFF_MOVED)
        vt_table_cell(table, "%s", vt_format_bytes(bytes, text));
    else
        vt_table_cell(table, "%s", vt_format_change(less ? bytes : 0, less ? 0 : bytes, text));
}

static void family_row(struct vt_table *table, const struct vt_module_family *family, unsigned kind)
{
    static const uint64_t nothing[VT_CATEGORY_COUNT];
    bool less = kind == VT_DIFF_REMOVED || kind == VT_DIFF_SHRUNK;
    char text[32];

    vt_table_cell(table, "%s", family->name);
    if (family->members == 1)
        vt_table_cell(table, "%s", "");
    else if (family->same)
        vt_table_cell(table, "%" PRIu64 " × %s", family->members,
                      vt_format_bytes(family->bytes / family->members, text));
    else
        vt_table_cell(table, "%" PRIu64 " of them", family->members);
    change_cell(table, kind, family->bytes);
    vt_table_cell(table, "%s", vt_diff_kind_name(kind));
    vt_diff_categories_cell(table, less ? family->categories : nothing, less ? nothing : family->categories);
}

static void nameless_row(struct vt_table *table, const struct vt_diff_rows *rows, const char *nameless)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct vt_diff_row *row = &rows->items[i];

        if (row->name[0])
            continue;
        vt_table_cell(table, VT_DIM "%s" VT_RESET, nameless);
        vt_table_cell(table, "%s", "");
        change_cell(table, row->kind, row->change_bytes);
        vt_table_cell(table, "%s", vt_diff_kind_name(row->kind));
        vt_diff_categories_cell(table, row->a.categories, row->b.categories);
    }
}

/* True if any family has several members. */
static bool fold_all(const struct vt_diff_rows *rows, struct folded *folded, int *result)
{
    bool several = false;

    *result = 0;
    for (unsigned k = 0; !*result && k < VT_DIFF_KINDS; k++) {
        *result = fold_kind(rows, k, &folded->families[k]);
        for (size_t i = 0; !*result && i < folded->families[k].count; i++)
            several |= folded->families[k].items[i].members > 1;
    }
    return several;
}

void vt_diff_folded(struct vt_print *print, const struct vt_diff_rows *rows, enum vt_by by,
                    const char *nameless, size_t most)
{
    const struct vt_module_family *family;
    struct folded folded = {0};
    struct vt_table table;
    char title[32];
    unsigned kind;
    size_t shown = 0;
    int result;
    bool several = fold_all(rows, &folded, &result);
    const struct vt_column columns[] = {{title, false, VT_CUT_PARTS, 24, 0},
                                        {several ? "each" : "", true, VT_CUT_END, 0, 1},
                                        {"change", true, VT_CUT_END, 0, 0},
                                        {"", false, VT_CUT_END, 0, 0},
                                        {"of", false, VT_CUT_END, 10, 0}};

    snprintf(title, sizeof title, "By %s", vt_by_name(by));
    fputc('\n', print->stream);
    vt_table_begin(&table, columns, 5);
    while (!result && (family = next_family(&folded, &kind)))
        if (shown++ < most)
            family_row(&table, family, kind);
    if (shown > most) {
        vt_table_cell(&table, VT_DIM "… %zu more, see --by %s" VT_RESET, shown - most, vt_by_name(by));
        for (int i = 0; i < 4; i++)
            vt_table_cell(&table, "%s", "");
    }
    nameless_row(&table, rows, nameless);
    vt_table_print(&table, print, print->style->width);
    for (unsigned k = 0; k < VT_DIFF_KINDS; k++)
        vt_module_families_free(&folded.families[k]);
}
