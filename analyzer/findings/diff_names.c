/* Names of modules and owners in a comparison: what is on one side only has the name of the outermost of its
 * places that the other side lacks. */
#include "findings/diff_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/module_names.h"
#include "base/sort.h"

void vt_diff_measure(struct vt_diff_row *row)
{
    uint64_t a = row->a.bytes, b = row->b.bytes;
    row->change_bytes = vt_distance(a, b);
    for (int c = 0; a == b && c < VT_CATEGORY_COUNT; c++)
        if (row->b.categories[c] > row->a.categories[c])
            row->change_bytes += row->b.categories[c] - row->a.categories[c];
}

/* A name with classes has a part for each class, another for each dotted level. */
static bool has_classes(const char *name)
{
    return strstr(name, VT_MODULE_CLASSES) || strchr(name, '#');
}

/* The end of the next part of a name, except the last; NULL = none. */
static const char *next_end(const char *name, bool classes, struct vt_module_level *level)
{
    while (vt_module_next(name, level)) {
        const char *end = level->begin + level->bytes;
        if (classes ? level->ends_class : *end == '.')
            return end;
    }
    return NULL;
}

/* The plain names of one side, in order, without roles. */
struct names {
    char **items;
    size_t count;
};

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void cut_role(char *name)
{
    char *role = strstr(name, VT_MODULE_ROLE);

    if (role)
        *role = '\0';
}

static void make_names(const struct vt_groups *groups, struct names *names)
{
    *names = (struct names){.items = vt_allocate_zeros(groups->count + 1, sizeof *names->items)};
    for (size_t i = 0; i < groups->count; i++) {
        char *name = vt_module_plain_name(groups->items[i].name);

        cut_role(name);
        names->items[names->count++] = name;
    }
    vt_sort(names->items, names->count, sizeof *names->items, compare_names);
}

static void free_names(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
}

/* True if a name begins with `start`, or is it where `whole`. */
static bool has_name(const struct names *names, const char *start, bool whole)
{
    size_t at = vt_lower_bound(names->items, names->count, sizeof *names->items, &start, compare_names);

    return at < names->count &&
           (whole ? !strcmp(names->items[at], start) : !strncmp(names->items[at], start, strlen(start)));
}

/* Number of the parts of a name, without role, up to its outermost place that `other` lacks; 0 = up to the
 * end. */
static size_t parts_to_place(char *name, const struct names *other)
{
    bool classes = has_classes(name);
    size_t separator = classes ? strlen(VT_MODULE_CLASSES) : 1, parts = 1;
    struct vt_module_level level = {0};

    for (char *end; (end = (char *)next_end(name, classes, &level)); parts++) {
        char kept = end[separator];
        bool known;

        end[separator] = '\0';
        known = has_name(other, name, false);
        end[separator] = kept;
        kept = *end;
        *end = '\0';
        known |= has_name(other, name, true);
        *end = kept;
        if (!known)
            return parts;
    }
    return 0;
}

/* "layers.6" of a module; of owners in a place that the other side lacks "layers.6.* · exp_avg". */
static void name_place(struct vt_diff_row *row, enum vt_by by, const struct names *other)
{
    const char *role = strstr(row->name, VT_MODULE_ROLE), *end = row->name;
    struct vt_module_level level = {0};
    char *plain = vt_module_plain_name(row->name), *name;
    size_t parts;

    cut_role(plain);
    parts = parts_to_place(plain, other);
    free(plain);
    if (!parts)
        return;
    while (end && parts--)
        end = next_end(row->name, has_classes(row->name), &level);
    if (!end)
        return;
    name = vt_print_text("%.*s%s%s", (int)(end - row->name), row->name, by == VT_BY_OWNER ? ".*" : "",
                         by == VT_BY_OWNER && role ? role : "");
    free(row->name);
    row->name = name;
}

static void add_side(struct vt_diff_side *into, const struct vt_diff_side *side)
{
    into->group = NULL;
    into->bytes += side->bytes;
    into->blocks += side->blocks;
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        into->categories[c] += side->categories[c];
}

static bool is_one_sided(const struct vt_diff_row *row)
{
    return (row->kind == VT_DIFF_ADDED || row->kind == VT_DIFF_REMOVED) && row->name[0];
}

/* Rows of one side first, by kind and name. */
static int compare_places(const void *left, const void *right)
{
    const struct vt_diff_row *a = left, *b = right;

    return a->kind != b->kind ? a->kind - b->kind : strcmp(a->name, b->name);
}

void vt_diff_collapse(struct vt_diff_rows *rows, enum vt_by by, const struct vt_groups *a,
                      const struct vt_groups *b)
{
    struct names of_a = {0}, of_b = {0};
    size_t kept = 0;

    make_names(a, &of_a);
    make_names(b, &of_b);
    for (size_t i = 0; i < rows->count; i++)
        if (is_one_sided(&rows->items[i]))
            name_place(&rows->items[i], by, rows->items[i].kind == VT_DIFF_ADDED ? &of_a : &of_b);
    free_names(&of_a);
    free_names(&of_b);
    vt_sort(rows->items, rows->count, sizeof *rows->items, compare_places);
    for (size_t i = 0; i < rows->count; i++) {
        struct vt_diff_row *row = &rows->items[i], *last = kept ? &rows->items[kept - 1] : NULL;

        if (last && is_one_sided(row) && !compare_places(last, row)) {
            add_side(&last->a, &row->a);
            add_side(&last->b, &row->b);
            last->members++;
            vt_diff_measure(last);
            free(row->name);
        } else {
            rows->items[kept++] = *row;
        }
    }
    rows->count = kept;
}
