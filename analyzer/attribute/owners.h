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

/* owners.c: owners of allocations in which an inspection saw tensors, and their labels but for step, phase
 * and forward stack. */
void vt_owners_place(const struct vt_replay *replay, const struct vt_phases *phases, struct vt_names *names,
                     struct vt_label *labels, struct vt_placed *placed);

#endif
