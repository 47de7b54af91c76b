/* Private to attribution: names from looks at live objects, given to blocks. */
#ifndef VT_INSPECTIONS_H
#define VT_INSPECTIONS_H

#include "attribute/attribute.h"
#include "attribute/owners.h"
#include "attribute/phases.h"

#define VT_RULE_NONE UINT16_MAX /* also: by the kind of allocation alone */
#define VT_RULE_INSPECTION (UINT16_MAX - 1)

/* A tensor in the allocation that held it at the time of a look. */
struct vt_sighting {
    uint32_t allocation, inspection;
    const struct vt_inspection_tensor *tensor; /* named by the look; NULL of those of its census */
    const struct vt_inspection_holder *holder; /* of its census */
    uint64_t bytes; /* of its span of addresses: views may show more elements than there is memory */
};

/* The owners of an allocation, which stand together. */
struct vt_owned {
    uint32_t first, count; /* indices of owners */
    uint64_t key;          /* the same for those of the same names and shares */
};

struct vt_placed {
    struct vt_owner *owners; /* of what looks saw, by allocation, then by address */
    size_t owner_count, owner_capacity;
    struct vt_owned *owned; /* by allocation */
    uint32_t *inspection_of;      /* by allocation: the latest that saw what lies in it, VT_NEVER = none */
    uint32_t
        *like; /* by allocation: one that a look saw and that is the same of another step, VT_NEVER = none */
    struct vt_inspection_counts counts;
};

/* sightings.c: which allocation each tensor lay in, of those that looks named, or of their censuses. By
 * allocation, address, then latest look first; the caller frees them. */
int vt_sightings_find(const struct vt_replay *replay, const struct vt_phases *phases, bool census,
                      struct vt_inspection_counts *counts, struct vt_sighting **sightings, size_t *count);

/* looks.c: owners, and for their allocations all of the label except step, phase and forward stack. */
int vt_inspections_place(const struct vt_replay *replay, const struct vt_phases *phases,
                         struct vt_names *names, struct vt_label *labels, struct vt_placed *placed);
enum vt_category vt_category_of_kind(uint8_t inspection_kind);

/* alike.c: gives gradients and optimizer state that rules only guessed the category of what looks saw from
 * the same stack, of the same size. */
int vt_inspections_spread(const struct vt_replay *replay, const struct vt_phases *phases,
                          const struct vt_placed *placed, struct vt_label *labels);

/* likeness.c: finds, for gradients, optimizer state and what steps put in the place of parameters and
 * buffers, what they are the same as, where no look saw them; and gives the last of these their category. */
int vt_likeness_find(const struct vt_replay *replay, const struct vt_phases *phases,
                     struct vt_module_tree *modules, struct vt_label *labels, struct vt_placed *placed);

#endif
