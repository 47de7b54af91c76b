/* Modules that differ only in the numbers of their names, folded to one row. */
#ifndef VT_MODULES_H
#define VT_MODULES_H

#include "report/instant.h"

#define VT_MODULE_NUMBERS 4u
#define VT_MODULE_WORDS 4u

struct vt_module_numbers {
    bool any;
    unsigned low, high;
    uint64_t seen[VT_MODULE_WORDS]; /* bits, of the numbers that they hold */
};

/* Modules that differ only in the numbers of their names, as one. The last number of a path of classes is
 * not folded where the module contains nothing and sizes differ: two Linear of one block are not repeats. */
struct vt_module_family {
    char *name; /* "layers.0–31.mlp", "EncoderLayer#1–6 > Dropout#2"; owned */
    const char
        *class_name; /* of modules their class, of owners dtype and shape; "" = not known; the groups' */
    uint64_t bytes, members, low_bytes, high_bytes; /* low and high: of a member */
    bool same;                                      /* all members hold the same */
    uint64_t temporary_peak_bytes;                  /* the largest of a member */
    uint64_t categories[VT_CATEGORY_COUNT];
    /* private to modules.c */
    char *pattern;
    uint64_t merged;
    struct vt_module_numbers numbers[VT_MODULE_NUMBERS];
};
struct vt_module_families {
    struct vt_module_family *items; /* largest first */
    size_t count;
};

/* The groups must outlive the families. Returns 0, as the next. */
void vt_fold_modules(const struct vt_groups *modules, struct vt_module_families *families);
/* Where a category is: its modules and those that contain them, each with everything inside. All numbers are
 * folded. Bytes are the category's. */
void vt_fold_places(const struct vt_groups *modules, unsigned category, struct vt_module_families *families);
/* The parts of a model that hold most, each with everything inside it; no two overlap. A container is
 * replaced by its parts where these hold most of it, until there are `rows` parts, but not a numbered one:
 * layers.0–31 is one row. */
void vt_fold_parts(const struct vt_groups *modules, size_t rows, struct vt_module_families *families);
void vt_module_families_free(struct vt_module_families *families);

/* True for categories of a whole model or device: the module that was running says nothing about them. */
bool vt_belongs_to_no_module(unsigned category);

#endif
