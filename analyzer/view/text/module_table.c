/* The tables of modules and of kinds of modules. */
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 120 /* from this width on categories have columns of their own */

/* The columns of categories, and what each adds up. */
static const struct {
    const char *title;
    unsigned categories;
    int drop;
} category_columns[] = {
    {"parameters", 1u << VT_CATEGORY_PARAMETER | 1u << VT_CATEGORY_BUFFER, 5},
    {"gradients", 1u << VT_CATEGORY_GRADIENT, 6},
    {"optimizer", 1u << VT_CATEGORY_OPTIMIZER_STATE, 7},
    {"activations", 1u << VT_CATEGORY_ACTIVATION, 4},
    {"other",
     ~(1u << VT_CATEGORY_PARAMETER | 1u << VT_CATEGORY_BUFFER | 1u << VT_CATEGORY_GRADIENT |
       1u << VT_CATEGORY_OPTIMIZER_STATE | 1u << VT_CATEGORY_ACTIVATION),
     8},
};
#define CATEGORY_COLUMNS (sizeof category_columns / sizeof *category_columns)

static uint64_t sum_of(const uint64_t categories[VT_CATEGORY_COUNT], unsigned which)
{
    uint64_t bytes = 0;

    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
        bytes += which >> c & 1 ? categories[c] : 0;
    return bytes;
}

/* A table of modules: a name, cells of the table's own, then these in every one. */
struct module_table {
    struct vt_table table;
    struct vt_column columns[3 + CATEGORY_COLUMNS + 4];
    int own_columns; /* without the name */
    bool wide;
    uint64_t whole;
};

static void begin(struct module_table *modules, const struct vt_print *print,
                  const struct vt_device_report *device, const struct vt_column *own, int own_columns)
{
    const struct vt_instant *instant = device->shown;
    int count = own_columns;

    modules->own_columns = own_columns - 1;
    modules->wide = print->style->width >= WIDE;
    modules->whole = instant->state.used_bytes;
    memcpy(modules->columns, own, (size_t)own_columns * sizeof *own);
    for (size_t i = 0; modules->wide && i < CATEGORY_COLUMNS; i++)
        modules->columns[count++] = (struct vt_column){
            sum_of(instant->state.categories, category_columns[i].categories) ? category_columns[i].title : "",
            true, VT_CUT_END, 0, category_columns[i].drop};
    modules->columns[count++] = (struct vt_column){"at once", true, VT_CUT_END, 0, 2};
    modules->columns[count++] = (struct vt_column){"all", true, VT_CUT_END, 0, 0};
    modules->columns[count++] = (struct vt_column){vt_text_whole(device), true, VT_CUT_END, 0, 0};
    if (!modules->wide)
        modules->columns[count++] = (struct vt_column){"mostly", false, VT_CUT_END, 0, 3};
    vt_table_begin(&modules->table, modules->columns, count);
}

static void bytes_cell(struct vt_table *table, uint64_t bytes)
{
    char text[32];

    vt_table_cell(table, "%s", bytes ? vt_format_bytes(bytes, text) : "");
}

/* The cells that every table has. `categories` NULL: what it is stands in the name. */
static void common_cells(struct module_table *modules, uint64_t bytes, uint64_t temporary_peak_bytes,
                         const uint64_t *categories)
{
    struct vt_table *table = &modules->table;

    for (size_t i = 0; modules->wide && i < CATEGORY_COLUMNS; i++)
        bytes_cell(table, categories ? sum_of(categories, category_columns[i].categories) : 0);
    bytes_cell(table, temporary_peak_bytes);
    vt_size_cells(table, bytes, modules->whole);
    if (!modules->wide && categories && bytes)
        vt_category_cell(table, categories);
    else if (!modules->wide)
        vt_table_cell(table, "%s", "");
}

static void plain_row(struct module_table *modules, const char *name, uint64_t bytes,
                      uint64_t temporary_peak_bytes, const uint64_t *categories)
{
    vt_table_cell(&modules->table, VT_DIM "%s" VT_RESET, name);
    for (int i = 0; i < modules->own_columns; i++)
        vt_table_cell(&modules->table, "%s", "");
    common_cells(modules, bytes, temporary_peak_bytes, categories);
}

static void rest_of_modules(struct module_table *modules, size_t rest, uint64_t bytes)
{
    char name[48];

    if (!rest)
        return;
    snprintf(name, sizeof name, "… %zu more", rest);
    plain_row(modules, name, bytes, 0, NULL);
}

/* What no module holds: what the whole model or the device has by its nature, what code outside of modules
 * made, and what is not known. */
static void nameless_rows(struct module_table *modules, const struct vt_group *group)
{
    uint64_t rest[VT_CATEGORY_COUNT], nature[VT_CATEGORY_COUNT], left[VT_CATEGORY_COUNT];
    uint64_t by_nature = 0, outside_bytes = sum_of(group->outside, ~0u), rest_bytes;
    char names[160] = "";
    size_t used = 0;

    for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++) {
        bool natural = vt_belongs_to_no_module(c);
        left[c] = nature[c] = natural ? group->categories[c] : 0;
        rest[c] = natural ? 0 : group->categories[c] - group->outside[c];
        by_nature += nature[c];
    }
    for (int n = 0; n < 3 && left[vt_largest_category(left)]; n++) {
        unsigned c = vt_largest_category(left);
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", n ? ", " : "",
                                 n < 2 ? vt_category_label(c) : "…");
        left[c] = 0;
    }
    rest_bytes = sum_of(rest, ~0u);
    if (outside_bytes)
        plain_row(modules, "outside of any module", outside_bytes, 0, group->outside);
    if (rest_bytes)
        plain_row(modules, "in no known module", rest_bytes, 0, rest);
    if (by_nature)
        plain_row(modules, names, by_nature, 0, nature);
}

/* "20.0–24.0 MiB", "384–640 KiB", "<0.01–1.20 MiB": in the unit of the larger, as short as tells them apart.
 * `text` holds at least 64 bytes. */
static char *format_range(uint64_t low, uint64_t high, char *text)
{
    char high_text[32], *unit;
    double number = strtod(vt_format_bytes(high, high_text), &unit);
    double scaled = number * (double)low / (double)high;
    int decimals = high < 1024 || number >= 100 ? 0 : number >= 10 ? 1 : 2;

    char low_text[32], rounded[32];
    snprintf(low_text, sizeof low_text, "%.*f", decimals, scaled);
    snprintf(rounded, sizeof rounded, "%.*f", decimals, number);
    if (strcmp(low_text, rounded) == 0)
        return vt_format_bytes(high, text);
    if (decimals && low && scaled < 0.005)
        snprintf(text, 64, "<0.01–%.*f%s", decimals, number, unit);
    else
        snprintf(text, 64, "%.*f–%.*f%s", decimals, scaled, decimals, number, unit);
    return text;
}

void vt_each_cell(struct vt_table *table, const struct vt_module_family *family)
{
    char text[64];

    if (family->members == 1)
        vt_table_cell(table, "%s", "");
    else if (!family->high_bytes)
        vt_table_cell(table, "%" PRIu64 " ×", family->members);
    else
        vt_table_cell(table, "%" PRIu64 " × %s", family->members,
                      family->same ? vt_format_bytes(family->low_bytes, text)
                                   : format_range(family->low_bytes, family->high_bytes, text));
}

/* Classes of names say nothing new of paths of classes. */
static void class_cell(struct vt_table *table, const struct vt_module_family *family)
{
    vt_table_cell(table, "%s", strstr(family->name, family->class_name) ? "" : family->class_name);
}

static const struct vt_group *nameless(const struct vt_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        if (!groups->items[i].name[0])
            return &groups->items[i];
    return NULL;
}

/* How many families are shown: in the report's own tables none that hold nothing. */
static size_t shown_families(const struct vt_module_families *families, size_t rows, bool all)
{
    size_t count = families->count;

    while (!all && count && !families->items[count - 1].bytes)
        count--;
    return count < rows ? count : rows;
}

void vt_text_modules(struct vt_print *print, const struct vt_report *report,
                     const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_MODULE];
    const struct vt_group *none = nameless(groups);
    bool asked = print->style->by == VT_BY_MODULE, repeated = false, classes = false;
    struct vt_module_families families;
    struct module_table modules;
    uint64_t rest = 0;
    char title[64];
    size_t shown;
    struct vt_column columns[] = {{vt_lossy_title(report,
                                                  asked                ? "By module"
                                                  : device->at.state.present ? "Where it was made"
                                                                       : "Where the peak was made",
                                                  title, sizeof title),
                                   false, VT_CUT_PARTS, 24, 0},
                                  {"", false, VT_CUT_END, 0, 9},
                                  {"", true, VT_CUT_END, 0, 1}};

    if ((!vt_has_names(groups) && !asked) || vt_fold_modules(groups, &families))
        return;
    shown = shown_families(&families, rows, asked);
    for (size_t i = 0; i < shown; i++) {
        repeated |= families.items[i].members > 1;
        classes |= !strstr(families.items[i].name, families.items[i].class_name);
    }
    columns[1].title = classes ? "class" : "";
    columns[2].title = repeated ? "each" : "";
    begin(&modules, print, device, columns, 3);
    for (size_t i = 0; i < families.count; i++) {
        const struct vt_module_family *family = &families.items[i];

        if (i >= shown) {
            rest += family->bytes;
            continue;
        }
        vt_table_cell(&modules.table, "%s", family->name);
        class_cell(&modules.table, family);
        vt_each_cell(&modules.table, family);
        common_cells(&modules, family->bytes, family->temporary_peak_bytes, family->categories);
    }
    rest_of_modules(&modules, rest ? families.count - shown : 0, rest);
    if (none)
        nameless_rows(&modules, none);
    vt_table_print(&modules.table, print, print->style->width);
    fputc('\n', print->stream);
    vt_module_families_free(&families);
}

void vt_text_kinds(struct vt_print *print, const struct vt_report *report,
                   const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_KIND];
    const struct vt_group *none = nameless(groups);
    struct module_table modules;
    uint64_t rest = 0;
    size_t more = 0, shown = 0;
    char title[64], count[32];
    const struct vt_column columns[] = {
        {vt_lossy_title(report, "By kind of module", title, sizeof title), false, VT_CUT_END, 20, 0},
        {"modules", true, VT_CUT_END, 0, 1}};

    begin(&modules, print, device, columns, 2);
    for (size_t i = 0; i < groups->count; i++) {
        const struct vt_group *group = &groups->items[i];

        if (group == none)
            continue;
        if (shown == rows) {
            rest += group->bytes;
            more++;
            continue;
        }
        shown++;
        vt_table_cell(&modules.table, "%s", group->name);
        vt_table_cell(&modules.table, "%s", vt_format_count(group->modules, count));
        common_cells(&modules, group->bytes, group->temporary_peak_bytes, group->categories);
    }
    rest_of_modules(&modules, more, rest);
    if (none)
        nameless_rows(&modules, none);
    vt_table_print(&modules.table, print, print->style->width);
    fputc('\n', print->stream);
}
