/* Groups being made: a hash table of their names over a growing array. */
#include "report/group_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int grow(struct vt_group_table *table)
{
    size_t capacity = table->capacity ? table->capacity * 2 : 64, slot_count = capacity * 2;
    struct vt_group *items = realloc(table->groups->items, capacity * sizeof *items);
    uint64_t *hashes;
    uint32_t *slots;

    if (!items)
        return -ENOMEM;
    table->groups->items = items;
    hashes = realloc(table->hashes, capacity * sizeof *hashes);
    if (!hashes)
        return -ENOMEM;
    table->hashes = hashes;
    slots = calloc(slot_count, sizeof *slots);
    if (!slots)
        return -ENOMEM;
    for (size_t i = 0; i < table->groups->count; i++) {
        size_t slot = hashes[i] & (slot_count - 1);
        while (slots[slot])
            slot = (slot + 1) & (slot_count - 1);
        slots[slot] = (uint32_t)i + 1;
    }
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    table->capacity = capacity;
    return 0;
}

struct vt_group *vt_group_in(struct vt_group_table *table, uint64_t hash, const char *name)
{
    struct vt_groups *groups = table->groups;
    struct vt_group *group;
    size_t slot;

    if (groups->count == table->capacity && grow(table))
        return NULL;
    for (slot = hash & (table->slot_count - 1); table->slots[slot];
         slot = (slot + 1) & (table->slot_count - 1))
        if (table->hashes[table->slots[slot] - 1] == hash)
            return &groups->items[table->slots[slot] - 1];
    group = &groups->items[groups->count];
    *group = (struct vt_group){.name = strdup(name)};
    if (!group->name)
        return NULL;
    table->hashes[groups->count++] = hash;
    table->slots[slot] = (uint32_t)groups->count;
    return group;
}

struct vt_group *vt_group_named(struct vt_group_table *table, const char *name)
{
    return vt_group_in(table, vt_hash_bytes(name, strlen(name), VT_HASH_START), name);
}

void vt_group_table_free(struct vt_group_table *table)
{
    free(table->slots);
    free(table->hashes);
    table->slots = NULL;
    table->hashes = NULL;
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
