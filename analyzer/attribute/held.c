/* What Python names hold: the censuses of inspections. */
#include "attribute/held.h"

#include "attribute/owners.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/rules.h"
#include "attribute/sightings.h"
#include "base/index.h"
#include "trace/frameworks.h"

/* Two names hold what one line makes. */
static const struct vt_inspection_holder several;

static bool same_holder(const struct vt_inspection_holder *a, const struct vt_inspection_holder *b)
{
    size_t bytes = vt_holder_bytes(a->holder);
    return bytes == vt_holder_bytes(b->holder) && memcmp(a->holder, b->holder, bytes) == 0;
}

static void note_stack(const struct vt_attribution *attribution, const struct vt_held *held,
                       struct vt_held_table *table)
{
    const struct vt_inspection_holder **of_stack =
        &table->of_stack[attribution->replay->allocations[held->allocation].stack_id];
    if (!*of_stack)
        *of_stack = held->holder;
    else if (*of_stack != &several && !same_holder(*of_stack, held->holder))
        *of_stack = &several;
}

void vt_held_find(struct vt_attribution *attribution, const struct vt_phases *phases, struct vt_arena *arena,
                  struct vt_held_table *table)
{
    struct vt_inspection_counts counts = {0};
    struct vt_sighting *sightings;
    size_t count, stacks = (attribution->trace->stack_count + 1) * sizeof *table->of_stack;
    vt_sightings_find(attribution->replay, phases, true, &counts, &sightings, &count);
    struct vt_held *held = vt_arena_take(arena, count * sizeof *held);
    table->of_stack = vt_arena_take(arena, stacks);
    memset(table->of_stack, 0, stacks);
    for (size_t i = 0; i < count; i++) {
        held[i] = (struct vt_held){sightings[i].allocation, sightings[i].inspection, sightings[i].holder};
        note_stack(attribution, &held[i], table);
    }
    attribution->held = held;
    attribution->held_count = count;
    free(sightings);
}

static int compare_held(const void *held, const void *allocation)
{
    return vt_order(((const struct vt_held *)held)->allocation, *(const uint32_t *)allocation);
}

const struct vt_inspection_holder *vt_held_get(const struct vt_attribution *attribution,
                                               const struct vt_held_table *table, uint32_t allocation)
{
    const struct vt_label *label = &attribution->labels[allocation];
    size_t at = vt_lower_bound(attribution->held, attribution->held_count, sizeof *attribution->held,
                               &allocation, compare_held);
    if (at < attribution->held_count && attribution->held[at].allocation == allocation)
        return attribution->held[at].holder;
    if (label->category != VT_CATEGORY_CHECKPOINT_COPY && label->category != VT_CATEGORY_KV_CACHE &&
        label->category != VT_CATEGORY_OTHER)
        return NULL;
    const struct vt_inspection_holder *holder =
        table->of_stack[attribution->replay->allocations[allocation].stack_id];
    return holder == &several ? NULL : holder;
}

/* Whether a step of the way has a cache's name: a variable, an attribute, a class; not the function that a
 * variable belongs to ("local 'self' of Runner.initialize_kv_cache()"). */
static bool is_way_to_cache(const char *way)
{
    enum { STEP_BYTES = 512 };
    char step[STEP_BYTES];
    for (const char *end; *way; way = *end ? end + 3 : end) {
        end = strstr(way, " < ");
        end = end ? end : way + strlen(way);
        size_t bytes = (size_t)(end - way) < STEP_BYTES ? (size_t)(end - way) : STEP_BYTES - 1;
        memcpy(step, way, bytes);
        step[bytes] = '\0';
        char *of = strstr(step, " of ");
        if (of && bytes > 2 && strcmp(step + bytes - 2, "()") == 0)
            *of = '\0';
        if (vt_is_cache_name(step))
            return true;
    }
    return false;
}

/* ---- Pairs: "attribute Cache.k" and "attribute Cache.v", "list 'keys' of run()" and "list 'values' of
 * run()" ---- */

enum { KEYS = 1, VALUES = 2 };

/* KEYS, VALUES or 0, by the last name of a holder; *rest: hash of what is around that name, and the size. */
static uint32_t half_of_pair(const struct vt_inspection_holder *holder, uint64_t bytes, uint64_t *rest)
{
    static const char *const keys[] = {"k", "key", "keys"}, *const values[] = {"v", "value", "values"};
    const char *text = holder->holder, *end = text + vt_holder_bytes(text), *quote = strchr(text, '\''),
               *dot = strrchr(text, '.'),
               *name = quote ? quote + 1
                       : dot ? dot + 1
                             : end;
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
    if (name >= end)
        return 0;
    *rest = vt_hash_bytes(name + length, (size_t)(end - name) - length,
                          vt_hash_bytes(text, (size_t)(name - text), bytes));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == length && !strncmp(name, keys[i], length))
            return KEYS;
        else if (strlen(values[i]) == length && !strncmp(name, values[i], length))
            return VALUES;
    return 0;
}

/* What is kept from call to call, and nothing else tells of. */
static bool may_be_cache(const struct vt_label *label, uint64_t life)
{
    return label->category == VT_CATEGORY_OTHER && !label->owner && life & VT_LIFE(OUTLIVES_CALL);
}

static void name_pairs(const struct vt_attribution *attribution, const uint64_t *lives,
                       struct vt_label *labels, uint32_t *inspection_of)
{
    struct vt_index halves = {0}; /* rest → KEYS | VALUES */
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < attribution->held_count; i++) {
            const struct vt_held *held = &attribution->held[i];
            struct vt_label *label = &labels[held->allocation];
            uint64_t rest = 0, bytes = attribution->replay->allocations[held->allocation].bytes;
            uint32_t half = half_of_pair(held->holder, bytes, &rest), known = vt_index_get(&halves, rest);
            if (!half || !may_be_cache(label, lives[held->allocation]))
                continue;
            if (round == 0) {
                vt_index_put(&halves, rest, known == VT_INDEX_NONE ? half : known | half);
            } else if (known == (KEYS | VALUES)) {
                label->category = VT_CATEGORY_KV_CACHE;
                label->evidence = VT_EVIDENCE_WEAK;
                label->rule = VT_RULE_INSPECTION;
                inspection_of[held->allocation] = held->inspection;
            }
        }
    vt_index_free(&halves);
}

/* ---- All caches ---- */

void vt_held_name_caches(const struct vt_attribution *attribution, const uint64_t *lives,
                         struct vt_label *labels, uint32_t *inspection_of)
{
    for (size_t i = 0; i < attribution->held_count; i++) {
        const struct vt_held *held = &attribution->held[i];
        struct vt_label *label = &labels[held->allocation];
        if (label->owner || !(lives[held->allocation] & VT_LIFE(OUTLIVES_CALL)) ||
            !is_way_to_cache(held->holder->way))
            continue;
        label->category = VT_CATEGORY_KV_CACHE;
        label->evidence = VT_EVIDENCE_STRONG;
        label->rule = VT_RULE_INSPECTION;
        inspection_of[held->allocation] = held->inspection;
    }
    name_pairs(attribution, lives, labels, inspection_of);
}

/* Such a result may lie in the graph of what made it: only what no module made is surely out of it. */
void vt_held_find_leaves(const struct vt_attribution *attribution, const struct vt_held_table *table,
                         const struct vt_traits_by_stack *sites, const uint64_t *lives,
                         struct vt_label *labels)
{
    for (size_t i = 0; i < attribution->replay->allocation_count; i++) {
        const struct vt_allocation *block = &attribution->replay->allocations[i];
        const struct vt_inspection_holder *holder = table->of_stack[block->stack_id];
        if (!holder || holder == &several || strcmp(holder->node, VT_LEAF_NODE) != 0 ||
            labels[i].category != VT_CATEGORY_ACTIVATION || labels[i].owner ||
            (sites->items[block->stack_id].traits & VT_TRAIT(MODULE)) ||
            !(lives[i] & VT_LIFE(AT_NEXT_FORWARD)))
            continue;
        labels[i].category = VT_CATEGORY_INPUT;
        labels[i].evidence = VT_EVIDENCE_WEAK;
        labels[i].rule = VT_RULE_INSPECTION;
    }
}
