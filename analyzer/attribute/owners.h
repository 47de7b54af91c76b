/* Private to attribution: owners of blocks, from inspections of live objects. */
#ifndef VT_OWNERS_H
#define VT_OWNERS_H

#include "attribute/attribute.h"
#include "attribute/names.h"
#include "attribute/phases.h"

#define VT_RULE_NONE UINT16_MAX /* also if the kind of allocation gives the category */
#define VT_RULE_INSPECTION (UINT16_MAX - 1)

/* A tensor in the allocation that held it when an inspection saw it. */
struct vt_sighting {
    uint32_t allocation, inspection;
    const struct vt_inspection_tensor *tensor; /* named by the inspection; NULL = from its census */
    const struct vt_inspection_holder *holder; /* from its census, else NULL */
    uint64_t bytes; /* of its span of addresses: an expanded view has more elements than memory */
};

/* The owners of an allocation. */
struct vt_owned {
    uint32_t first, count; /* indices of owners */
    uint64_t key;          /* the same for owners of the same names and shares */
    bool is_array;         /* an array of a library other than PyTorch */
};

struct vt_placed {
    struct vt_owner *owners; /* of what inspections saw, by allocation, then by address */
    size_t owner_count, owner_capacity;
    struct vt_owned *owned;  /* by allocation */
    uint32_t *inspection_of; /* by allocation: the latest that saw what lies in it, VT_NEVER = none */
    uint32_t *like; /* by allocation: one that an inspection saw and that this one repeats, VT_NEVER = none */
    struct vt_inspection_counts counts;
};

/* sightings.c: the allocation that each tensor lay in, for named tensors or for the census. Sorted by
 * allocation, address, then latest inspection first; the caller frees them. */
void vt_sightings_find(const struct vt_replay *replay, const struct vt_phases *phases, bool census,
                       struct vt_inspection_counts *counts, struct vt_sighting **sightings, size_t *count);

/* owners.c: owners of allocations in which an inspection saw tensors, and their labels but for step, phase
 * and forward stack. */
void vt_owners_place(const struct vt_replay *replay, const struct vt_phases *phases, struct vt_names *names,
                     struct vt_label *labels, struct vt_placed *placed);

/* trees.c: categories of arrays that programs hold in trees, by the trees' names and structures. */
void vt_trees_judge(const struct vt_sighting *sightings, size_t count, struct vt_label *labels);

/* unseen.c: adds VT_LIFE(UNSEEN) to the bits in `lives`, by allocation. `labels` are those of rules and
 * owners. */
void vt_unseen_find(const struct vt_replay *replay, const struct vt_phases *phases,
                    const struct vt_label *labels, const struct vt_placed *placed, uint64_t *lives);

/* named.c: categories of what inspections found under names that tell what it is, where rules only guess. */
void vt_named_judge(const struct vt_attribution *attribution, const struct vt_phases *phases,
                    const uint64_t *lives, struct vt_label *labels, struct vt_placed *placed);

/* repeats.c: sets `like` for gradients, optimizer state, and parameters and buffers that steps replace, where
 * no inspection saw them, and corrects categories that rules only guessed. */
void vt_repeats_find(const struct vt_replay *replay, const struct vt_phases *phases,
                     struct vt_module_tree *modules, const uint64_t *lives, struct vt_label *labels,
                     struct vt_placed *placed);

/* calls.c: after vt_repeats_find, sets `like` for arrays that no inspection saw, by those that other calls of
 * the same line made, and their categories. */
void vt_calls_judge(const struct vt_replay *replay, const struct vt_phases *phases, struct vt_label *labels,
                    struct vt_placed *placed);

/* held.c: what Python names hold. */
struct vt_held_table {
    const struct vt_inspection_holder **of_stack; /* by stack: what holds its blocks, NULL = none was seen */
};
/* Sets `held` of the attribution. The table lives in the arena. */
void vt_held_find(struct vt_attribution *attribution, const struct vt_phases *phases, struct vt_arena *arena,
                  struct vt_held_table *table);
/* As vt_holder_of. */
const struct vt_inspection_holder *vt_held_get(const struct vt_attribution *attribution,
                                               const struct vt_held_table *table, uint32_t allocation);
/* What a program calls a cache of keys and values, and keeps from call to call, is one. */
void vt_held_name_caches(const struct vt_attribution *attribution, const uint64_t *lives,
                         struct vt_label *labels, uint32_t *inspection_of);
/* What a variable holds, gets a gradient and is no parameter is data, though autograd made it: an attack on
 * the inputs computes the next one from the one before. */
void vt_held_find_leaves(const struct vt_attribution *attribution, const struct vt_held_table *table,
                         const struct vt_traits_by_stack *sites, const uint64_t *lives,
                         struct vt_label *labels);

#endif
