/* Modules of several processes as far as they can be compared: if one process calls a module "model.head"
 * because it has a second model, or no inspection named its optimizer state, its memory is no different. */
#include "job/modules.h"

#include "base/index.h"
#include "base/sort.h"
#include "job/job_maker.h"

#include <stdlib.h>
#include <string.h>

#define CANDIDATES 4u /* for the one whose names count */

const uint8_t vt_job_named_categories[VT_JOB_NAMED] = {VT_CATEGORY_PARAMETER, VT_CATEGORY_GRADIENT,
                                                       VT_CATEGORY_OPTIMIZER_STATE};

int vt_job_compare_parts(const void *left, const void *right)
{
    const struct vt_job_part *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    return order ? order : vt_order(a->phase, b->phase);
}

const struct vt_job_part *vt_job_find_part(const struct vt_job_parts *parts, const char *name, uint8_t phase)
{
    const struct vt_job_part part = {.name = name, .phase = phase};

    return parts->count ? bsearch(&part, parts->items, parts->count, sizeof part, vt_job_compare_parts)
                        : NULL;
}

/* With a first item for what is outside any module, which sorts first. */
static void copy_modules(struct vt_job_maker *maker, const struct vt_job_parts *from, struct vt_job_parts *to)
{
    const bool has = from->count && !from->items[0].name[0];

    to->items = vt_job_take(&maker->arena, from->count + 1, sizeof *to->items);
    to->count = from->count + !has;
    to->items[0] = (struct vt_job_part){.name = "", .file = "", .category = VT_CATEGORY_UNKNOWN};
    if (from->count)
        memcpy(to->items + !has, from->items, from->count * sizeof *to->items);
}

/* ---- Categories that only a name puts into a module ---- */

static bool is_named(const struct vt_job_parts *parts, unsigned kind)
{
    uint64_t all = 0;

    for (size_t i = 0; i < parts->count; i++)
        all += parts->items[i].named_bytes[kind];
    return parts->items[0].named_bytes[kind] <= all / 2;
}

static void take_out(struct vt_job_parts *parts, unsigned kind)
{
    for (size_t i = 1; i < parts->count; i++) {
        parts->items[0].bytes += parts->items[i].named_bytes[kind];
        parts->items[i].bytes -= parts->items[i].named_bytes[kind];
    }
}

/* If one process has no names for a category, no process has that category in a module. */
static void take_out_unnamed(struct vt_job_parts *parts, size_t count)
{
    for (unsigned kind = 0; kind < VT_JOB_NAMED; kind++) {
        bool named = true;

        for (size_t i = 0; i < count; i++)
            named &= is_named(&parts[i], kind);
        for (size_t i = 0; !named && i < count; i++)
            take_out(&parts[i], kind);
    }
}

/* ---- Names of models ---- */

/* How many of the bytes in modules are in those that the other has too. */
static bool shares_names(const struct vt_job_parts *parts, const struct vt_job_parts *other)
{
    uint64_t shared = 0, all = 0;

    for (size_t i = 1; i < parts->count; i++) {
        all += parts->items[i].bytes;
        shared += vt_job_find_part(other, parts->items[i].name, 0) ? parts->items[i].bytes : 0;
    }
    return shared >= all / 2 + all % 2;
}

/* The first whose names half of the others have, else the first. */
static size_t choose_usual(const struct vt_job_parts *parts, size_t count)
{
    for (size_t k = 0; k < count && k < CANDIDATES; k++) {
        size_t like = 0;

        for (size_t i = 0; i < count; i++)
            like += shares_names(&parts[i], &parts[k]);
        if (like * 2 > count)
            return k;
    }
    return 0;
}

/* The model ("model") of `with` that has the most bytes in modules that `without` has by the rest of their
 * names; how many bytes its name has, the dot too. */
static size_t find_model(const struct vt_job_parts *with, const struct vt_job_parts *without,
                         const char **model)
{
    uint64_t most = 0, bytes = 0;
    size_t most_length = 0, length = 0;
    const char *now = NULL;

    for (size_t i = 1; i < with->count; i++) {
        const char *name = with->items[i].name, *dot = strchr(name, '.');

        if (!dot)
            continue;
        if (!now || length != (size_t)(dot + 1 - name) || strncmp(now, name, length) != 0) {
            now = name;
            length = (size_t)(dot + 1 - name);
            bytes = 0;
        }
        bytes += vt_job_find_part(without, dot + 1, 0) ? with->items[i].bytes : 0;
        if (bytes > most) {
            most = bytes;
            most_length = length;
            *model = now;
        }
    }
    return most_length;
}

/* Gives the modules of `parts` the names that `usual` has. */
static void rename_modules(struct vt_job_maker *maker, struct vt_job_parts *parts,
                           const struct vt_job_parts *usual)
{
    const char *model = NULL;
    const size_t length = find_model(parts, usual, &model),
                 added = length ? 0 : find_model(usual, parts, &model);

    for (size_t i = 1; i < parts->count; i++) {
        struct vt_job_part *part = &parts->items[i];
        const char *name = part->name;

        if (length && !strncmp(name, model, length))
            name += length;
        else if (added)
            name = vt_job_print(&maker->arena, "%.*s%s", (int)added, model, name);
        if (vt_job_find_part(usual, name, 0))
            part->name = name;
    }
    vt_sort(parts->items, parts->count, sizeof *parts->items, vt_job_compare_parts);
}

void vt_job_align_modules(struct vt_job_maker *maker, const struct vt_job_device *const *devices,
                          size_t count, struct vt_job_parts *parts)
{
    size_t usual;

    for (size_t i = 0; i < count; i++)
        copy_modules(maker, &devices[i]->modules, &parts[i]);
    take_out_unnamed(parts, count);
    usual = choose_usual(parts, count);
    for (size_t i = 0; i < count; i++)
        if (i != usual && !shares_names(&parts[i], &parts[usual]))
            rename_modules(maker, &parts[i], &parts[usual]);
}
