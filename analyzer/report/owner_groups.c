/* Who owns what is alive. */
#include "report/owner_groups.h"
#include "base/format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 1024

static void add(struct vt_group *group, uint32_t stack_id, uint8_t category, uint64_t bytes,
                uint64_t tensor_bytes, uint8_t evidence)
{
    group->evidence = !group->blocks || evidence < group->evidence ? evidence : group->evidence;
    group->bytes += bytes;
    group->tensor_bytes += tensor_bytes;
    group->blocks++;
    group->categories[category] += bytes;
    if (!group->stack_id)
        group->stack_id = stack_id;
}

/* "float32 1024x256", "float32" for a scalar. */
static char *dtype_shape_of(const struct vt_owner *owner)
{
    size_t bytes = strlen(owner->dtype) + strlen(owner->shape) + 2;
    char *text = malloc(bytes);

    if (text)
        snprintf(text, bytes, "%s%s%s", owner->dtype, owner->shape[0] ? " " : "", owner->shape);
    return text;
}

/* One category to a group: what a name stands for may change its nature. */
static uint64_t hash_of(const char *name, const char *role, uint8_t category)
{
    uint64_t hash = vt_hash_bytes(name, strlen(name) + 1, VT_HASH_START);

    hash = vt_hash_bytes(role, strlen(role) + 1, hash);
    return vt_hash_bytes(&category, 1, hash);
}

static int add_owner(const struct vt_owner *owner, uint32_t stack_id, uint8_t category,
                     struct vt_group_table *table)
{
    struct vt_group *group = vt_group_in(table, hash_of(owner->name, owner->role, category), owner->name);

    if (group && !group->owner) {
        group->owner = owner;
        group->module = owner->module;
        group->class_name = group->dtype_shape = dtype_shape_of(owner);
    }
    if (!group || !group->class_name)
        return -ENOMEM;
    add(group, stack_id, category, owner->share_bytes, owner->bytes, owner->evidence);
    return 0;
}

/* "layers.3.mlp · activation", "train.py:88 main · input", "workspace"; "" = nothing is known. */
static void name_nameless(const struct vt_attribution *attribution, struct vt_stack_namer *namer,
                          const struct vt_allocation *allocation, char name[NAME_BYTES + 64])
{
    uint8_t category = vt_label_of(attribution, allocation)->category;
    bool of_device = category == VT_CATEGORY_WORKSPACE || category == VT_CATEGORY_COMMUNICATION;
    const char *module = vt_shown_module(vt_label_of(attribution, allocation));
    const struct vt_frame *frame =
        module || of_device ? NULL : vt_stack_user_frame(namer, vt_telling_stack(attribution, allocation));
    char place[NAME_BYTES] = "";

    if (module)
        snprintf(place, sizeof place, "%s", module);
    else if (frame)
        vt_name_frame(attribution->trace, frame, place, sizeof place);
    if (!place[0] && category == VT_CATEGORY_UNKNOWN)
        name[0] = '\0';
    else
        snprintf(name, NAME_BYTES + 64, "%s%s%s", place, place[0] ? " · " : "",
                 vt_category_style(category)->label);
}

static int add_nameless(const struct vt_attribution *attribution, struct vt_stack_namer *namer,
                        const struct vt_allocation *allocation, struct vt_group_table *table)
{
    const struct vt_label *label = vt_label_of(attribution, allocation);
    char name[NAME_BYTES + 64];
    struct vt_group *group;

    if (label->owner)
        snprintf(name, sizeof name, "%s", label->owner);
    else
        name_nameless(attribution, namer, allocation, name);
    group = vt_group_in(table, hash_of(name, "", label->category), name);
    if (!group)
        return -ENOMEM;
    group->module = vt_shown_module(label);
    add(group, allocation->stack_id, label->category, allocation->bytes, 0, label->evidence);
    return 0;
}

int vt_add_to_owners(const struct vt_attribution *attribution, struct vt_stack_namer *namer,
                     uint32_t allocation, struct vt_group_table *table)
{
    const struct vt_allocation *block = &attribution->replay->allocations[allocation];
    size_t count;
    const struct vt_owner *owners = vt_owners_of(attribution, allocation, &count);
    int result = count ? 0 : add_nameless(attribution, namer, block, table);

    for (size_t i = 0; i < count && !result; i++)
        result = add_owner(&owners[i], block->stack_id, attribution->labels[allocation].category, table);
    return result;
}
