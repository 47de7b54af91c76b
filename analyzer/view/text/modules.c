/* The tables of modules, of kinds of modules and of owners. */
#include "view/text/table.h"
#include "view/text/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WIDE 120 /* from this width on categories have columns of their own */

/* Category columns, and the categories that each sums. */
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

/* A table of modules: a name, the table's own columns, then common ones. */
struct module_table {
    struct vt_table table;
    struct vt_print_column columns[3 + CATEGORY_COLUMNS + 4];
    int own_columns; /* without the name */
    bool wide;
    uint64_t whole;
};

static void begin_table(struct module_table *modules, const struct vt_print *print,
                        const struct vt_device_report *device, const struct vt_print_column *own,
                        int own_columns)
{
    const uint64_t *categories = device->shown->state.categories;
    int count = own_columns;

    modules->own_columns = own_columns - 1;
    modules->wide = print->style->width >= WIDE;
    modules->whole = device->shown->state.used_bytes;
    memcpy(modules->columns, own, (size_t)own_columns * sizeof *own);
    for (size_t i = 0; modules->wide && i < CATEGORY_COLUMNS; i++)
        modules->columns[count++] = (struct vt_print_column){
            sum_of(categories, category_columns[i].categories) ? category_columns[i].title : "",
            .right = true, .drop = category_columns[i].drop};
    modules->columns[count++] = (struct vt_print_column){"temp. peak", .right = true, .drop = 2};
    modules->columns[count++] = (struct vt_print_column){"total", .right = true};
    modules->columns[count++] = (struct vt_print_column){vt_text_whole(device), .right = true};
    if (!modules->wide)
        modules->columns[count++] = (struct vt_print_column){"mostly", .drop = 3};
    vt_table_begin(&modules->table, modules->columns, count);
}

static void bytes_cell(struct vt_table *table, uint64_t bytes)
{
    vt_table_cells(table, bytes ? VT_BYTES(bytes) : "");
}

/* The cells of the common columns. `categories` NULL: the name says what it is. */
static void common_cells(struct module_table *modules, uint64_t bytes, uint64_t temporary_peak_bytes,
                         const uint64_t *categories)
{
    struct vt_table *table = &modules->table;

    for (size_t i = 0; modules->wide && i < CATEGORY_COLUMNS; i++)
        bytes_cell(table, categories ? sum_of(categories, category_columns[i].categories) : 0);
    bytes_cell(table, temporary_peak_bytes);
    vt_table_size(table, bytes, modules->whole);
    if (!modules->wide && categories && bytes)
        vt_table_category(table, categories);
    vt_table_end_row(table);
}

static void plain_row(struct module_table *modules, const char *name, uint64_t bytes,
                      uint64_t temporary_peak_bytes, const uint64_t *categories)
{
    vt_table_cell(&modules->table, VT_DIM "%s" VT_RESET, name);
    for (int i = 0; i < modules->own_columns; i++)
        vt_table_cells(&modules->table, "");
    common_cells(modules, bytes, temporary_peak_bytes, categories);
}

/* Memory that no module holds: categories of the whole model or device, allocations of code outside modules,
 * and the unknown. */
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
        plain_row(modules, "outside any module", outside_bytes, 0, group->outside);
    if (rest_bytes)
        plain_row(modules, "in no known module", rest_bytes, 0, rest);
    if (by_nature)
        plain_row(modules, names, by_nature, 0, nature);
}

/* Adds rows for the modules that are not shown and for memory without a module; prints the table. */
static void end_table(struct module_table *modules, struct vt_print *print, size_t rest, uint64_t rest_bytes,
                      const struct vt_group *nameless)
{
    char name[48];

    snprintf(name, sizeof name, "… %zu more", rest);
    if (rest)
        plain_row(modules, name, rest_bytes, 0, NULL);
    if (nameless)
        nameless_rows(modules, nameless);
    vt_table_print(&modules->table, print);
    fputc('\n', print->stream);
}

/* "20.0–24.0 MiB", "384–640 KiB", "<0.01–1.20 MiB": in the larger's unit, with few decimals.
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

/* "6 × 24.00 MiB", "6 × 20.00–24.00 MiB", or nothing for one. */
void vt_text_each(struct vt_table *table, const struct vt_module_family *family)
{
    char range[64];

    if (family->members == 1)
        vt_table_cells(table, "");
    else if (!family->high_bytes)
        vt_table_cell(table, "%" PRIu64 " ×", family->members);
    else
        vt_table_cell(table, "%" PRIu64 " × %s", family->members,
                      family->same ? VT_BYTES(family->low_bytes)
                                   : format_range(family->low_bytes, family->high_bytes, range));
}

/* The class, unless the name is a path of classes that contains it. */
static const char *class_of(const struct vt_module_family *family)
{
    return strstr(family->name, family->class_name) ? "" : family->class_name;
}

static const struct vt_group *nameless_group(const struct vt_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++)
        if (!groups->items[i].name[0])
            return &groups->items[i];
    return NULL;
}

/* How many families are shown; without --by, only those that hold something. */
static size_t shown_families(const struct vt_module_families *families, size_t rows, bool all)
{
    size_t count = families->count;

    while (!all && count && !families->items[count - 1].bytes)
        count--;
    return count < rows ? count : rows;
}

static bool any_repeated(const struct vt_module_families *families, size_t shown)
{
    for (size_t i = 0; i < shown; i++)
        if (families->items[i].members > 1)
            return true;
    return false;
}

static uint64_t bytes_from(const struct vt_module_families *families, size_t shown)
{
    uint64_t bytes = 0;

    for (size_t i = shown; i < families->count; i++)
        bytes += families->items[i].bytes;
    return bytes;
}

void vt_text_modules(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_MODULE];
    bool asked = print->style->by == VT_BY_MODULE, classes = false;
    const char *title = asked                      ? "By module"
                        : device->at.state.present ? "By module"
                                                   : "By module, at the peak";
    struct vt_module_families families;
    struct module_table modules;
    uint64_t rest;
    size_t shown;

    if (!vt_has_names(groups) && !asked)
        return;
    vt_fold_modules(groups, &families);
    shown = shown_families(&families, rows, asked);
    for (size_t i = 0; i < shown; i++)
        classes |= !strstr(families.items[i].name, families.items[i].class_name);
    const struct vt_print_column columns[] = {
        {VT_TITLE(print, title), .cut = VT_CUT_PARTS, .minimum = 24},
        {classes ? "class" : "", .drop = 9},
        {any_repeated(&families, shown) ? "each" : "", .right = true, .drop = 1}};
    begin_table(&modules, print, device, columns, 3);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_module_family *family = &families.items[i];

        vt_table_cells(&modules.table, family->name, class_of(family));
        vt_text_each(&modules.table, family);
        common_cells(&modules, family->bytes, family->temporary_peak_bytes, family->categories);
    }
    rest = bytes_from(&families, shown);
    end_table(&modules, print, rest ? families.count - shown : 0, rest, nameless_group(groups));
    vt_module_families_free(&families);
}

void vt_text_kinds(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_KIND];
    const struct vt_group *none = nameless_group(groups);
    struct module_table modules;
    uint64_t rest = 0;
    size_t more = 0, shown = 0;
    const struct vt_print_column columns[] = {{VT_TITLE(print, "By kind of module"), .minimum = 20},
                                              {"modules", .right = true, .drop = 1}};

    begin_table(&modules, print, device, columns, 2);
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
        vt_table_cells(&modules.table, group->name, VT_COUNT(group->modules));
        common_cells(&modules, group->bytes, group->temporary_peak_bytes, group->categories);
    }
    end_table(&modules, print, more, rest, none);
}

void vt_text_owners(struct vt_print *print, const struct vt_device_report *device, size_t rows)
{
    const struct vt_groups *groups = &device->shown->groups[VT_BY_OWNER];
    uint64_t whole = device->shown->state.used_bytes, nameless_bytes = 0;
    struct vt_module_families families;
    struct vt_table table;
    size_t shown;
    bool repeated;

    vt_fold_modules(groups, &families);
    shown = shown_families(&families, rows, true);
    repeated = any_repeated(&families, shown);
    const struct vt_print_column columns[] = {
        {VT_TITLE(print, "By owner"), .cut = VT_CUT_PARTS, .minimum = 28},
        {"", .drop = 5},
        {repeated ? "each" : "", .right = true, .drop = 2},
        {repeated ? "all" : "", .right = true},
        {vt_text_whole(device), .right = true},
        {"", .drop = 3}};
    vt_table_begin(&table, columns, 6);
    for (size_t i = 0; i < shown; i++) {
        const struct vt_module_family *family = &families.items[i];

        vt_table_cells(&table, family->name, family->class_name);
        vt_text_each(&table, family);
        vt_table_size(&table, family->bytes, whole);
        vt_table_category(&table, family->categories);
    }
    vt_table_rest(&table, families.count - shown, bytes_from(&families, shown), whole, 2);
    for (size_t i = 0; i < groups->count; i++)
        nameless_bytes += groups->items[i].name[0] ? 0 : groups->items[i].bytes;
    if (nameless_bytes) {
        vt_table_cells(&table, VT_DIM "not known" VT_RESET, "", "");
        vt_table_size(&table, nameless_bytes, whole);
        vt_table_end_row(&table);
    }
    vt_table_print(&table, print);
    fputc('\n', print->stream);
    vt_module_families_free(&families);
}
