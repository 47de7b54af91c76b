/* What is alive at one moment, grouped in the ways that the tables show. */
#include "report/groups.h"

#include "attribute/attribute.h"
#include "base/allocate.h"
#include "base/sort.h"
#include "report/blocks.h"
#include "report/group_table.h"
#include "report/modules.h"
#include "report/report.h"
#include "trace/frameworks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 1024

struct vt_grouper {
    const struct vt_attribution *attribution;
    struct vt_places *places;
    unsigned depth;                      /* levels of modules' names, 0 = all */
    struct vt_groups peaks[VT_BY_COUNT]; /* of peaks_device */
    int peaks_device[VT_BY_COUNT];       /* -1 = none yet */
};

static struct vt_group *group_by_line(struct vt_grouper *grouper, struct vt_group_table *table,
                                      const struct vt_allocation *allocation)
{
    const struct vt_place *place =
        vt_place_of(grouper->places, vt_telling_stack(grouper->attribution, allocation));
    uint8_t phase = vt_label_of(grouper->attribution, allocation)->phase;
    uint64_t hash = VT_HASH_START;
    struct vt_group *group;

    if (place) {
        hash = vt_hash_bytes(place->frame.file, strlen(place->frame.file) + 1, hash);
        hash = vt_hash_bytes(place->name, strlen(place->name) + 1, hash);
        hash = vt_hash_bytes(&phase, 1, hash);
    }
    group = vt_group_in(table, hash, place ? place->name : "", place ? strlen(place->name) : 0);
    group->place = place;
    group->phase = phase;
    return group;
}

/* A stack of backward shows the node; the forward operator, if known, distinguishes nodes of one class. */
static struct vt_group *group_by_stack(struct vt_grouper *grouper, struct vt_group_table *table,
                                       const struct vt_allocation *allocation)
{
    const struct vt_stack_name *names = vt_stack_name_of(grouper->places, allocation->stack_id), *forward;
    uint32_t forward_id = vt_label_of(grouper->attribution, allocation)->forward_stack_id;
    const char *name = names->text;
    char joined[NAME_BYTES * 2];
    uint64_t hash = names->hash;
    struct vt_group *group;

    if (forward_id && forward_id != allocation->stack_id) {
        forward = vt_stack_name_of(grouper->places, forward_id);
        snprintf(joined, sizeof joined, "%s, backward of %s", name, forward->text);
        hash = vt_hash_bytes(&forward->hash, sizeof hash, hash);
        name = forward->text[0] ? joined : name;
    }
    group = vt_group_in(table, hash, name, strlen(name));
    if (!group->forward_stack_id)
        group->forward_stack_id = forward_id;
    return group;
}

static bool has_python(const struct vt_grouper *grouper, uint32_t stack_id)
{
    const struct vt_trace *trace = grouper->attribution->trace;

    return stack_id < trace->stack_count && trace->stacks[stack_id].python_count;
}

static struct vt_group *group_by_module(struct vt_grouper *grouper, struct vt_group_table *table,
                                        enum vt_by by, const struct vt_allocation *allocation)
{
    const struct vt_label *label = vt_label_of(grouper->attribution, allocation);
    const char *module = vt_shown_module(label);
    struct vt_group *group = vt_group_of_module(grouper->attribution, grouper->depth, table, by, module);

    if (!module && !vt_belongs_to_no_module(label->category) &&
        has_python(grouper, vt_telling_stack(grouper->attribution, allocation)))
        group->outside[label->category] += allocation->bytes;
    return group;
}

static struct vt_group *group_for(struct vt_grouper *grouper, struct vt_group_table *table, enum vt_by by,
                                  const struct vt_allocation *allocation)
{
    const char *name = NULL;

    switch (by) {
    case VT_BY_LINE:
        return group_by_line(grouper, table, allocation);
    case VT_BY_STACK:
        return group_by_stack(grouper, table, allocation);
    case VT_BY_CATEGORY:
        name = vt_category_name(vt_label_of(grouper->attribution, allocation)->category);
        break;
    case VT_BY_MODULE:
    case VT_BY_KIND:
        return group_by_module(grouper, table, by, allocation);
    case VT_BY_OP:
        name = vt_operator_of(grouper->attribution, allocation->stack_id);
        break;
    default:
        break;
    }
    name = name ? name : "";
    return vt_group_named(table, name, strlen(name));
}

/* ---- Owners ---- */

static void add_owned(struct vt_group *group, uint32_t stack_id, uint8_t category, uint64_t bytes,
                      uint64_t tensor_bytes, uint8_t evidence)
{
    group->evidence = !group->blocks || evidence < group->evidence ? evidence : group->evidence;
    group->bytes += bytes;
    group->tensor_bytes += tensor_bytes;
    group->blocks++;
    group->categories[category] += bytes;
    group->category = group->bytes ? category : VT_CATEGORY_UNKNOWN;
    if (!group->stack_id)
        group->stack_id = stack_id;
}

/* "float32 1024x256", "float32" for a scalar. */
static char *dtype_shape_of(const struct vt_owner *owner)
{
    size_t bytes = strlen(owner->dtype) + strlen(owner->shape) + 2;
    char *text = vt_allocate(bytes);

    snprintf(text, bytes, "%s%s%s", owner->dtype, owner->shape[0] ? " " : "", owner->shape);
    return text;
}

/* One category per group: memory of one name may change its category. */
static uint64_t hash_of(const char *name, const char *role, uint8_t category)
{
    uint64_t hash = vt_hash_bytes(name, strlen(name) + 1, VT_HASH_START);

    hash = vt_hash_bytes(role, strlen(role) + 1, hash);
    return vt_hash_bytes(&category, 1, hash);
}

static void set_module(const struct vt_attribution *attribution, struct vt_group *group, const char *module)
{
    if (group->module != module)
        group->module_class = module ? vt_module_class(attribution, module) : NULL;
    group->module = module;
}

static void add_owner(const struct vt_attribution *attribution, const struct vt_owner *owner,
                      uint32_t stack_id, uint8_t category, struct vt_group_table *table)
{
    struct vt_group *group =
        vt_group_in(table, hash_of(owner->name, owner->role, category), owner->name, strlen(owner->name));

    if (!group->role) {
        group->role = owner->role;
        group->dtype = owner->dtype;
        group->shape = owner->dtype[0] ? owner->shape : NULL; /* neither is known */
        group->dtype_shape = dtype_shape_of(owner);
        set_module(attribution, group, owner->module);
    }
    add_owned(group, stack_id, category, owner->share_bytes, owner->bytes, owner->evidence);
}

/* "layers.3.mlp · activation", "list 'losses' of main() · activation", "train.py:88 main · input",
 * "workspace"; "" = nothing is known. */
static void name_nameless(const struct vt_attribution *attribution, struct vt_places *places,
                          const struct vt_allocation *allocation, char name[NAME_BYTES + 64])
{
    uint8_t category = vt_label_of(attribution, allocation)->category;
    bool of_device = category == VT_CATEGORY_WORKSPACE || category == VT_CATEGORY_COMMUNICATION;
    const char *module = vt_shown_module(vt_label_of(attribution, allocation));
    const struct vt_inspection_holder *holder =
        module || of_device
            ? NULL
            : vt_holder_of(attribution, (uint32_t)(allocation - attribution->replay->allocations));
    const struct vt_place *line =
        module || holder || of_device ? NULL : vt_place_of(places, vt_telling_stack(attribution, allocation));
    const char *place = module ? module : holder ? holder->holder : line ? line->name : "";
    size_t bytes = holder ? vt_holder_bytes(place) : strlen(place);

    if (!bytes && category == VT_CATEGORY_UNKNOWN)
        name[0] = '\0';
    else
        snprintf(name, NAME_BYTES + 64, "%.*s%s%s", bytes < NAME_BYTES ? (int)bytes : NAME_BYTES - 1, place,
                 bytes ? " · " : "", vt_category_label(category));
}

static void add_nameless(const struct vt_attribution *attribution, struct vt_places *places,
                         const struct vt_allocation *allocation, struct vt_group_table *table)
{
    const struct vt_label *label = vt_label_of(attribution, allocation);
    char name[NAME_BYTES + 64];
    struct vt_group *group;

    if (label->owner)
        snprintf(name, sizeof name, "%s", label->owner);
    else
        name_nameless(attribution, places, allocation, name);
    group = vt_group_in(table, hash_of(name, "", label->category), name, strlen(name));
    set_module(attribution, group, vt_shown_module(label));
    add_owned(group, allocation->stack_id, label->category, allocation->bytes, 0, label->evidence);
}

/* Adds an allocation to the groups of its owners, its share to each: all groups together have all bytes. One
 * without an owner goes to a group of its module or line and category ("layers.3.mlp · activation"). */
static void add_to_owners(const struct vt_attribution *attribution, struct vt_places *places,
                          uint32_t allocation, struct vt_group_table *table)
{
    const struct vt_allocation *block = &attribution->replay->allocations[allocation];
    size_t count;
    const struct vt_owner *owners = vt_owners_of(attribution, allocation, &count);

    if (!count)
        add_nameless(attribution, places, block, table);
    for (size_t i = 0; i < count; i++)
        add_owner(attribution, &owners[i], block->stack_id, attribution->labels[allocation].category, table);
}

/* ---- All ways ---- */

static int compare_groups(const void *left, const void *right)
{
    const struct vt_group *a = left, *b = right;

    return a->bytes != b->bytes ? vt_order(b->bytes, a->bytes) : strcmp(a->name, b->name);
}

static bool is_by_module(enum vt_by by)
{
    return by == VT_BY_MODULE || by == VT_BY_KIND;
}

/* Modules that ever had temporaries are listed even if they hold nothing at the moment. */
static void add_temporary_peaks(struct vt_grouper *grouper, int device_index, enum vt_by by,
                                struct vt_group_table *table)
{
    struct vt_groups *peaks = &grouper->peaks[by];

    if (grouper->peaks_device[by] != device_index) {
        vt_groups_free(peaks);
        vt_find_temporary_peaks(grouper->attribution, grouper->depth, device_index, by, peaks);
        grouper->peaks_device[by] = device_index;
    }
    for (size_t i = 0; i < peaks->count; i++) {
        const char *name = peaks->items[i].name;
        struct vt_group *group =
            by == VT_BY_KIND ? vt_group_named(table, name, strlen(name)) /* a class already */
                             : vt_group_of_module(grouper->attribution, grouper->depth, table, by, name);

        group->temporary_peak_bytes = peaks->items[i].bytes;
    }
}

/* Groups of one way being made. */
struct making {
    struct vt_grouper *grouper;
    enum vt_by by;
    struct vt_group_table table;
    struct vt_groups modules; /* by kind: those met */
    struct vt_group_table modules_met;
};

static void count_module(struct making *making, struct vt_group *group, const char *module)
{
    size_t before = making->modules.count;

    vt_group_named(&making->modules_met, module, strlen(module));
    group->modules += making->modules.count - before;
}

static void add_bytes(struct making *making, struct vt_group *group, const struct vt_allocation *allocation,
                      const char *module, uint64_t bytes)
{
    if (!group->stack_id)
        group->stack_id = allocation->stack_id;
    group->bytes += bytes;
    group->blocks++;
    group->categories[vt_label_of(making->grouper->attribution, allocation)->category] += bytes;
    if (making->by == VT_BY_KIND && module)
        count_module(making, group, module);
}

/* A buffer may hold tensors of several modules: each gets its share. */
static void add_allocation(struct making *making, uint32_t index)
{
    struct vt_grouper *grouper = making->grouper;
    const struct vt_allocation *allocation = &grouper->attribution->replay->allocations[index];
    const struct vt_owner *owners = NULL;
    size_t count = 0;

    if (making->by == VT_BY_OWNER) {
        add_to_owners(grouper->attribution, grouper->places, index, &making->table);
        return;
    }
    if (is_by_module(making->by))
        owners = vt_owners_of(grouper->attribution, index, &count);
    if (count < 2) {
        add_bytes(making, group_for(grouper, &making->table, making->by, allocation), allocation,
                  vt_shown_module(vt_label_of(grouper->attribution, allocation)), allocation->bytes);
        return;
    }
    for (size_t i = 0; i < count; i++)
        add_bytes(making,
                  vt_group_of_module(grouper->attribution, grouper->depth, &making->table, making->by,
                                     owners[i].module),
                  allocation, owners[i].module, owners[i].share_bytes);
}

static void make_groups(struct vt_grouper *grouper, int device_index, enum vt_by by,
                        const struct vt_counted *counted, struct vt_groups *groups)
{
    struct making making = {.grouper = grouper, .by = by, .table.groups = groups};

    making.modules_met.groups = &making.modules;
    for (size_t i = 0; i < counted->count; i++)
        add_allocation(&making, counted->items[i]);
    if (is_by_module(by))
        add_temporary_peaks(grouper, device_index, by, &making.table);
    vt_index_free(&making.table.index);
    vt_index_free(&making.modules_met.index);
    vt_groups_free(&making.modules);
    vt_sort(groups->items, groups->count, sizeof *groups->items, compare_groups);
}

void vt_group_instant(struct vt_grouper *grouper, int device_index, unsigned groups,
                      struct vt_instant *instant)
{
    const struct vt_attribution *attribution = grouper->attribution;
    struct vt_counted counted = vt_counted_at(attribution->replay, device_index, instant->state.event_index);

    for (size_t i = 0; i < counted.count; i++)
        instant->evidence[attribution->labels[counted.items[i]].evidence] +=
            attribution->replay->allocations[counted.items[i]].bytes;
    for (int by = 0; by < VT_BY_COUNT; by++)
        if (groups & 1u << by)
            make_groups(grouper, device_index, (enum vt_by)by, &counted, &instant->groups[by]);
    free(counted.items);
}

uint64_t vt_group_host_memory(struct vt_grouper *grouper, uint32_t event_index, enum vt_by by,
                              struct vt_groups *groups)
{
    const struct vt_replay *replay = grouper->attribution->replay;
    struct vt_counted counted = {0};
    size_t capacity = 0;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        if (!vt_is_host_memory(&replay->allocations[i]) || !vt_alive_at(&replay->allocations[i], event_index))
            continue;
        VT_APPEND(counted.items, counted.count, capacity, i);
        bytes += replay->allocations[i].bytes;
    }
    make_groups(grouper, -1, by, &counted, groups);
    free(counted.items);
    return bytes;
}

struct vt_grouper *vt_grouper_make(const struct vt_report *report, unsigned depth)
{
    struct vt_grouper *grouper = vt_allocate_zeros(1, sizeof *grouper);

    grouper->attribution = report->attribution;
    grouper->places = report->places;
    grouper->depth = depth;
    for (int by = 0; by < VT_BY_COUNT; by++)
        grouper->peaks_device[by] = -1;
    return grouper;
}

void vt_grouper_free(struct vt_grouper *grouper)
{
    for (int by = 0; by < VT_BY_COUNT; by++)
        vt_groups_free(&grouper->peaks[by]);
    free(grouper);
}
