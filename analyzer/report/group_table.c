/* Groups while they are made, and what modules had for a moment only. */
#include "report/group_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/module_names.h"
#include "base/sort.h"

static struct vt_group *group_in(struct vt_group_table *table, uint64_t hash, const char *name, size_t bytes)
{
    struct vt_groups *groups = table->groups;
    uint32_t at = vt_index_get(&table->index, hash);
    struct vt_group *group;

    if (at != VT_INDEX_NONE)
        return &groups->items[at];
    if (vt_reserve(&groups->items, &table->capacity, groups->count + 1, sizeof *groups->items))
        return NULL;
    group = &groups->items[groups->count];
    *group = (struct vt_group){.name = strndup(name, bytes)};
    if (!group->name)
        return NULL;
    groups->count++;
    return vt_index_put(&table->index, hash, (uint32_t)groups->count - 1) ? NULL : group;
}

struct vt_group *vt_group_in(struct vt_group_table *table, uint64_t hash, const char *name)
{
    return group_in(table, hash, name, strlen(name));
}

struct vt_group *vt_group_named(struct vt_group_table *table, const char *name, size_t bytes)
{
    return group_in(table, vt_hash_bytes(name, bytes, VT_HASH_START), name, bytes);
}

void vt_groups_free(struct vt_groups *groups)
{
    for (size_t i = 0; i < groups->count; i++) {
        free(groups->items[i].name);
        free(groups->items[i].dtype_shape);
    }
    free(groups->items);
    *groups = (struct vt_groups){0};
}

/* ---- Modules ---- */

/* "" = not known. */
static const char *class_of(const struct vt_attribution *attribution, const char *module)
{
    const char *name = module ? vt_module_class(attribution, module) : NULL;

    return name ? name : "";
}

struct vt_group *vt_group_of_module(const struct vt_attribution *attribution, unsigned depth,
                                    struct vt_group_table *table, enum vt_by by, const char *module)
{
    const char *name = by == VT_BY_KIND ? class_of(attribution, module) : module ? module : "";
    size_t bytes = by == VT_BY_KIND || !depth ? strlen(name) : vt_module_prefix(name, depth);
    struct vt_group *group = vt_group_named(table, name, bytes);

    if (by != VT_BY_KIND && group && group->name[0] && !group->class_name) {
        group->class_name = class_of(attribution, group->name);
        group->depth = vt_module_levels(group->name);
    }
    return group;
}

/* The module of a temporary, or of a workspace given back in its step; NULL = anything else. */
static const char *module_of_temporary(const struct vt_attribution *attribution,
                                       const struct vt_allocation *allocation)
{
    const struct vt_label *label = vt_label_of(attribution, allocation);
    bool temporary = label->category == VT_CATEGORY_TEMPORARY ||
                     (label->category == VT_CATEGORY_WORKSPACE && allocation->free_event != VT_NEVER &&
                      vt_span_at(attribution, allocation->free_event)->step == label->step);

    return temporary && vt_is_grouped(allocation) ? label->module : NULL;
}

struct change {
    uint32_t event, group;
    uint64_t bytes; /* modulo 2^64 */
};

/* At one event: what it frees comes before what it makes. */
static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;

    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

static uint64_t event_of_change(const void *change)
{
    return ((const struct change *)change)->event;
}

static int sort_changes(struct change *changes, size_t count)
{
    int error = vt_sort_by_key(changes, count, sizeof *changes, event_of_change);
    for (size_t i = 0, end; i < count && !error; i = end) {
        for (end = i + 1; end < count && changes[end].event == changes[i].event; end++)
            ;
        if (end - i > 1)
            qsort(changes + i, end - i, sizeof *changes, compare_changes);
    }
    return error;
}

int vt_find_temporary_peaks(const struct vt_attribution *attribution, unsigned depth, int device_index,
                            enum vt_by by, struct vt_groups *peaks)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_group_table table = {.groups = peaks};
    struct change *changes = malloc((replay->allocation_count * 2 + 1) * sizeof *changes);
    uint64_t *now = NULL;
    size_t count = 0;
    int result = changes ? 0 : -ENOMEM;

    for (size_t i = 0; !result && i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *module = module_of_temporary(attribution, allocation);
        struct vt_group *group;
        uint32_t at;

        if (!module || allocation->device_index != device_index)
            continue;
        group = vt_group_of_module(attribution, depth, &table, by, module);
        result = group ? 0 : -ENOMEM;
        at = group ? (uint32_t)(group - peaks->items) : 0;
        changes[count++] = (struct change){allocation->alloc_event, at, allocation->bytes};
        changes[count++] = (struct change){allocation->free_event, at, -allocation->bytes};
    }
    now = calloc(peaks->count + 1, sizeof *now);
    result = result || now ? result : -ENOMEM;
    if (!result)
        result = sort_changes(changes, count);
    for (size_t i = 0; !result && i < count; i++) {
        struct vt_group *group = &peaks->items[changes[i].group];
        uint64_t bytes = now[changes[i].group] += changes[i].bytes;

        group->bytes = bytes > group->bytes ? bytes : group->bytes;
    }
    vt_index_free(&table.index);
    free(changes);
    free(now);
    return result;
}
