/* Groups while they are made, and what modules had for a moment only. */
#include "replay/walk.h"
#include "report/group_table.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/module_names.h"
#include "report/blocks.h"

#include <stdlib.h>
#include <string.h>

struct vt_group *vt_group_in(struct vt_group_table *table, uint64_t hash, const char *name, size_t bytes)
{
    struct vt_groups *groups = table->groups;
    uint32_t at = vt_index_add(&table->index, hash, (uint32_t)groups->count);

    if (at == groups->count)
        VT_APPEND(groups->items, groups->count, table->capacity,
                  (struct vt_group){.name = vt_copy_bytes(name, bytes)});
    return &groups->items[at];
}

struct vt_group *vt_group_named(struct vt_group_table *table, const char *name, size_t bytes)
{
    return vt_group_in(table, vt_hash_bytes(name, bytes, VT_HASH_START), name, bytes);
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

    if (by != VT_BY_KIND && group->name[0] && !group->class_name) {
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

/* The temporaries of each group while the replay is walked. */
struct temporaries {
    const struct vt_attribution *attribution;
    uint32_t *groups; /* by allocation: its group, UINT32_MAX = none */
    uint64_t *now;    /* by group: bytes that are alive */
    struct vt_groups *peaks;
};

static void change_temporaries(void *context, uint32_t allocation, bool begins)
{
    const struct temporaries *temporaries = context;
    uint32_t at = temporaries->groups[allocation];
    uint64_t bytes = temporaries->attribution->replay->allocations[allocation].bytes;

    if (at == UINT32_MAX)
        return;
    temporaries->now[at] += begins ? bytes : 0 - bytes;
    if (temporaries->now[at] > temporaries->peaks->items[at].bytes)
        temporaries->peaks->items[at].bytes = temporaries->now[at];
}

void vt_find_temporary_peaks(const struct vt_attribution *attribution, unsigned depth, int device_index,
                             enum vt_by by, struct vt_groups *peaks)
{
    const struct vt_replay *replay = attribution->replay;
    struct vt_group_table table = {.groups = peaks};
    struct temporaries temporaries = {.attribution = attribution, .peaks = peaks};
    const struct vt_replay_visitor visitor = {.change = change_temporaries, .context = &temporaries};

    temporaries.groups = vt_allocate((replay->allocation_count + 1) * sizeof *temporaries.groups);
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        const char *module =
            allocation->device_index == device_index ? module_of_temporary(attribution, allocation) : NULL;
        struct vt_group *group = module ? vt_group_of_module(attribution, depth, &table, by, module) : NULL;

        temporaries.groups[i] = group ? (uint32_t)(group - peaks->items) : UINT32_MAX;
    }
    temporaries.now = vt_allocate_zeros(peaks->count + 1, sizeof *temporaries.now);
    vt_replay_walk(replay, device_index, &visitor);
    vt_index_free(&table.index);
    free(temporaries.groups);
    free(temporaries.now);
}
