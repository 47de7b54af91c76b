/* Owners of the allocations in which inspections saw tensors. They give category and evidence for the whole
 * life of each allocation. */
#include "attribute/owners.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/sightings.h"
#include "attribute/trees.h"
#include "base/allocate.h"
#include "base/index.h"
#include "base/module_names.h"
#include "trace/frameworks.h"

/* One span of an allocation, and its name. */
struct pick {
    const struct vt_sighting *sighting;
    const struct vt_named *named;
    uint64_t share_bytes;
};

struct placing {
    const struct vt_replay *replay;
    struct vt_label *labels;
    struct vt_names *names;
    struct vt_placed *placed;
    struct pick *picks; /* of the current allocation */
    size_t count, capacity;
};

static uint64_t end_of(const struct vt_sighting *sighting)
{
    return sighting->tensor->data_address + sighting->bytes;
}

/* Sightings of one span, latest inspection first. The latest says what the span is. Its name is that of the
 * latest sighting in a module, else that of a variable. */
static struct pick pick_one(const struct vt_names *names, const struct vt_sighting *sightings, size_t count)
{
    struct pick pick = {.sighting = sightings, .named = vt_names_tensor(names, sightings->tensor)};
    for (size_t i = 1; i < count && (!pick.named || pick.named->root < 0); i++) {
        const struct vt_named *named = vt_names_tensor(names, sightings[i].tensor);
        if (named && (!pick.named || named->root >= 0) &&
            sightings[i].tensor->kind == pick.sighting->tensor->kind)
            pick.named = named;
    }
    return pick;
}

/* Where spans overlap, the later sighting is right: a new tensor uses the memory of an earlier one. */
static void pick_all(struct placing *placing, const struct vt_sighting *sightings, size_t count)
{
    size_t same;
    placing->count = 0;
    for (size_t i = 0; i < count; i += same) {
        for (same = 1; i + same < count &&
                       sightings[i + same].tensor->data_address == sightings[i].tensor->data_address &&
                       sightings[i + same].bytes == sightings[i].bytes;)
            same++;
        vt_reserve(&placing->picks, &placing->capacity, placing->count + 1, sizeof *placing->picks);
        struct pick pick = pick_one(placing->names, sightings + i, same);
        const struct pick *last = placing->count > 0 ? &placing->picks[placing->count - 1] : NULL;
        if (last && pick.sighting->tensor->data_address < end_of(last->sighting)) {
            if (pick.sighting->inspection < last->sighting->inspection)
                continue;
            if (pick.sighting->inspection > last->sighting->inspection)
                placing->count--;
        }
        placing->picks[placing->count++] = pick;
    }
}

/* Arrays lie in a pool of their library's, of which we see the whole. */
static bool are_arrays(const struct placing *placing)
{
    return placing->picks[0].sighting->tensor->own_path;
}

/* Each span gets the bytes that no span before it has. The largest share also gets the bytes without a
 * tensor; beside arrays these are another owner's. Returns how many that has. */
static uint64_t share_bytes_out(struct placing *placing, uint64_t bytes)
{
    uint64_t covered_to = 0, shared = 0;
    struct pick *largest = &placing->picks[0];
    for (size_t i = 0; i < placing->count; i++) {
        struct pick *pick = &placing->picks[i];
        uint64_t start = pick->sighting->tensor->data_address, end = end_of(pick->sighting);
        start = start > covered_to ? start : covered_to;
        pick->share_bytes = end > start ? end - start : 0;
        covered_to = end > covered_to ? end : covered_to;
        shared += pick->share_bytes;
        if (pick->share_bytes > largest->share_bytes)
            largest = pick;
    }
    if (are_arrays(placing))
        return bytes - shared;
    largest->share_bytes += bytes - shared;
    return 0;
}

/* "fc.weight", "fc.weight (gathered)", "fc.weight · grad", "fc.weight · exp_avg" */
static const char *owner_name(struct vt_names *names, const struct pick *pick, bool gathered)
{
    const char *held = pick->named ? pick->named->joined : "";
    const struct vt_inspection_tensor *tensor = pick->sighting->tensor;
    bool plain = held[0] && (tensor->own_path || tensor->kind <= VT_INSPECTION_BUFFER ||
                             tensor->kind == VT_INSPECTION_TENSOR);
    if (plain && !gathered)
        return held;
    char *text = vt_print_text("%s%s%s", held,
                               plain     ? " "
                               : held[0] ? " · "
                                         : "",
                               plain                                    ? "(gathered)"
                               : tensor->kind == VT_INSPECTION_GRADIENT ? "grad"
                                                                        : tensor->role);
    const char *name = vt_names_text(names, text);
    free(text);
    return name;
}

/* The innermost module that holds all owners, NULL = none. */
static const char *common_module(struct vt_names *names, const struct vt_owner *owners, size_t count)
{
    const char *first = owners[0].module;
    size_t bytes = first ? strlen(first) : 0;
    for (size_t i = 1; i < count && bytes > 0; i++)
        bytes = vt_module_common(first, bytes, owners[i].module ? owners[i].module : "");
    if (bytes == 0 || !first[bytes])
        return bytes ? first : NULL;
    char *text = vt_copy_bytes(first, bytes);
    const char *module = vt_names_text(names, text);
    free(text);
    return module;
}

static const char *owners_text(struct vt_names *names, const struct vt_owner *owners, size_t count)
{
    char text[1024];
    if (count == 1)
        return owners[0].name;
    int used = snprintf(text, sizeof text, "%.400s, %.400s", owners[0].name, owners[1].name);
    if (count > 2)
        snprintf(text + used, sizeof text - (size_t)used, " and %zu more", count - 2);
    return vt_names_text(names, text);
}

/* True if the tensors in the current allocation have the names of keys and values. */
static bool is_cache(const struct placing *placing)
{
    for (size_t i = 0; i < placing->count; i++) {
        const char *path = placing->picks[i].sighting->tensor->path, *dot = strrchr(path, '.');
        if (!vt_is_cache_name(dot ? dot + 1 : path))
            return false;
    }
    return true;
}

/* The block gets the category that most of its bytes have; none by names alone. */
static void set_category(const struct placing *placing, const struct vt_allocation *allocation,
                         struct vt_label *label)
{
    static const uint8_t categories[] = {
        [VT_INSPECTION_PARAMETER] = VT_CATEGORY_PARAMETER,
        [VT_INSPECTION_BUFFER] = VT_CATEGORY_BUFFER,
        [VT_INSPECTION_GRADIENT] = VT_CATEGORY_GRADIENT,
        [VT_INSPECTION_OPTIMIZER_STATE] = VT_CATEGORY_OPTIMIZER_STATE,
        [VT_INSPECTION_TENSOR] = VT_CATEGORY_KV_CACHE,
    };
    uint64_t bytes[VT_INSPECTION_TENSOR + 1] = {0}, storage_end = 0;
    uint8_t most = 0;
    for (size_t i = 0; i < placing->count; i++) {
        const struct vt_inspection_tensor *tensor = placing->picks[i].sighting->tensor;
        uint64_t end = tensor->storage_address + tensor->storage_bytes;
        bytes[tensor->kind] += placing->picks[i].share_bytes;
        storage_end = end > storage_end ? end : storage_end;
    }
    for (uint8_t kind = 0; kind <= VT_INSPECTION_TENSOR; kind++)
        most = bytes[kind] > bytes[most] ? kind : most;
    label->rounding_bytes = are_arrays(placing) ? 0 : allocation->address + allocation->bytes - storage_end;
    if (most == VT_INSPECTION_TENSOR && (are_arrays(placing) || !is_cache(placing))) /* what rules say */
        return;
    label->category = categories[most];
    label->evidence = VT_EVIDENCE_EXACT;
    /* a module may register its cache of keys and values */
    if (most == VT_INSPECTION_TENSOR || (most == VT_INSPECTION_BUFFER && is_cache(placing))) {
        label->category = VT_CATEGORY_KV_CACHE;
        label->evidence = VT_EVIDENCE_STRONG;
    }
    label->rule = VT_RULE_INSPECTION;
}

/* The share of a sole owner is the whole allocation, whose size may differ from step to step. */
static uint64_t key_of(const struct vt_owner *owners, size_t count)
{
    uint64_t key = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t parts[] = {key, (uintptr_t)owners[i].name, count > 1 ? owners[i].share_bytes : 0};
        key = vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
    }
    return key;
}

static void place_one(struct placing *placing, const struct vt_sighting *sightings, size_t count)
{
    struct vt_placed *placed = placing->placed;
    uint32_t index = sightings->allocation, latest = 0;
    const struct vt_allocation *allocation = &placing->replay->allocations[index];
    struct vt_label *label = &placing->labels[index];
    pick_all(placing, sightings, count);
    vt_reserve(&placed->owners, &placed->owner_capacity, placed->owner_count + placing->count + 1,
               sizeof *placed->owners);
    uint64_t rest_bytes = share_bytes_out(placing, allocation->bytes);
    size_t owner_count = placing->count;
    set_category(placing, allocation, label);
    struct vt_owner *owners = placed->owners + placed->owner_count;
    for (size_t i = 0; i < placing->count; i++) {
        const struct pick *pick = &placing->picks[i];
        const struct vt_inspection_tensor *tensor = pick->sighting->tensor;
        owners[i] = (struct vt_owner){
            .name = owner_name(placing->names, pick, label->gathered),
            .role = tensor->role,
            .module = pick->named ? pick->named->module : NULL,
            .dtype = tensor->dtype,
            .shape = tensor->shape,
            .bytes = tensor->bytes,
            .share_bytes = pick->share_bytes,
            .allocation = index,
            .evidence = VT_EVIDENCE_EXACT,
        };
        latest = pick->sighting->inspection > latest ? pick->sighting->inspection : latest;
    }
    if (rest_bytes)
        owners[owner_count++] =
            (struct vt_owner){.name = vt_names_text(placing->names, "in no array that has a name"),
                              .role = "array",
                              .dtype = "",
                              .shape = "",
                              .share_bytes = rest_bytes,
                              .allocation = index,
                              .evidence = VT_EVIDENCE_WEAK};
    placed->owned[index] = (struct vt_owned){.first = (uint32_t)placed->owner_count,
                                             .count = (uint32_t)owner_count,
                                             .key = key_of(owners, owner_count),
                                             .is_array = are_arrays(placing)};
    placed->owner_count += owner_count;
    placed->inspection_of[index] = latest;
    label->owner = owners_text(placing->names, owners, owner_count);
    label->module = common_module(placing->names, owners, owner_count);
}

void vt_owners_place(const struct vt_replay *replay, const struct vt_phases *phases, struct vt_names *names,
                     struct vt_label *labels, struct vt_placed *placed)
{
    struct placing placing = {.replay = replay, .labels = labels, .names = names, .placed = placed};
    struct vt_sighting *sightings;
    size_t count, own;
    placed->inspection_of = vt_allocate((replay->allocation_count + 1) * sizeof *placed->inspection_of);
    placed->owned = vt_allocate_zeros(replay->allocation_count + 1, sizeof *placed->owned);
    memset(placed->inspection_of, 0xff, (replay->allocation_count + 1) * sizeof *placed->inspection_of);
    vt_sightings_find(replay, phases, false, &placed->counts, &sightings, &count);
    for (size_t i = 0; i < count; i += own) {
        for (own = 1; i + own < count && sightings[i + own].allocation == sightings[i].allocation;)
            own++;
        place_one(&placing, sightings + i, own);
    }
    vt_trees_judge(sightings, count, labels);
    free(placing.picks);
    free(sightings);
}
