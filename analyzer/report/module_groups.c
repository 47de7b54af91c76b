/* Groups of modules: by name, by class, and what they had for a moment only. */
#include "report/module_groups.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first `depth` levels of a name, all of it for 0. */
static const char *cut(const char *module, unsigned depth, char text[VT_MODULE_NAME_BYTES])
{
    if (!module)
        return "";
    if (!depth)
        return module;
    snprintf(text, VT_MODULE_NAME_BYTES, "%.*s", (int)vt_module_prefix(module, depth), module);
    return text;
}

/* "" = not known. */
static const char *class_of(const struct vt_attribution *attribution, const char *module)
{
    const char *name = module ? vt_module_class(attribution, module) : NULL;

    return name ? name : "";
}

struct vt_group *vt_group_of_module(const struct vt_attribution *attribution, unsigned depth,
                                    struct vt_group_table *table, enum vt_by by, const char *module)
{
    char name[VT_MODULE_NAME_BYTES];
    struct vt_group *group;

    if (by == VT_BY_KIND)
        return vt_group_named(table, class_of(attribution, module));
    group = vt_group_named(table, cut(module, depth, name));
    if (group && group->name[0] && !group->class_name) {
        group->class_name = class_of(attribution, group->name);
        group->depth = vt_module_levels(group->name);
    }
    return group;
}

/* What a module needs for a moment only: its temporaries, and the workspaces that it gives back. */
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

/* What an event frees comes before what it makes. */
static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;

    if (a->event != b->event)
        return a->event < b->event ? -1 : 1;
    return a->bytes < b->bytes ? 1 : a->bytes > b->bytes ? -1 : 0;
}

int vt_find_temporary_peaks(const struct vt_attribution *attribution, unsigned depth, int device_index,
                            enum vt_by by, struct vt_groups *peaks)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_group_table table = {.groups = peaks};
    struct change *changes = calloc(replay->allocation_count * 2 + 1, sizeof *changes);
    uint64_t *now = NULL;
    size_t count = 0;
    int result = changes ? 0 : -ENOMEM;

    for (size_t i = 0; !result && i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *module = module_of_temporary(attribution, allocation);
        struct vt_group *group;

        if (!module || allocation->device_index != device_index)
            continue;
        group = vt_group_of_module(attribution, depth, &table, by, module);
        if (!group) {
            result = -ENOMEM;
            break;
        }
        changes[count++] =
            (struct change){allocation->alloc_event, (uint32_t)(group - peaks->items), allocation->bytes};
        changes[count++] =
            (struct change){allocation->free_event, (uint32_t)(group - peaks->items), -allocation->bytes};
    }
    now = calloc(peaks->count + 1, sizeof *now);
    result = result || now ? result : -ENOMEM;
    if (!result)
        qsort(changes, count, sizeof *changes, compare_changes);
    for (size_t i = 0; !result && i < count; i++) {
        struct vt_group *group = &peaks->items[changes[i].group];
        uint64_t bytes = now[changes[i].group] += changes[i].bytes;

        group->bytes = bytes > group->bytes ? bytes : group->bytes;
    }
    vt_group_table_free(&table);
    free(changes);
    free(now);
    return result;
}
