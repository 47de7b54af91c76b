/* Private to attribution: names of modules and tensors, from inspections of live objects and from stacks. */
#ifndef VT_NAMES_H
#define VT_NAMES_H

#include "attribute/stack_traits.h"

/* Where a tensor is: the module that holds it, and its name there. Names of one storage are tied. */
struct vt_named {
    int32_t root;       /* index into trace->roots, -1 = in no module */
    const char *path;   /* as the inspection recorded it */
    const char *text;   /* "layers.3.attn.weight", with several roots "generator.layers.3.attn.weight" */
    const char *joined; /* "wte.weight = lm_head.weight"; without ties the same as text */
    const char *module; /* "layers.3.attn"; the root's name if the root holds it; NULL = in no module */
    uint32_t leader, next, last; /* private: links of tied names */
};

struct vt_names;
struct vt_names *vt_names_make(const struct vt_trace *trace);
void vt_names_free(struct vt_names *names);

/* The place of a tensor that an inspection of the trace saw; valid until vt_names_free. */
const struct vt_named *vt_names_tensor(const struct vt_names *names,
                                       const struct vt_inspection_tensor *tensor);

/* A new era begins when an inspection finds another module at a known address. */
uint32_t vt_names_era(const struct vt_names *names, uint32_t event_index);
/* The module at an address, by the latest inspection up to the era, else by the first one; NULL = none was
 * seen there. */
const char *vt_names_module(const struct vt_names *names, uint64_t address, uint32_t era);

/* The one copy of a text, which lives as long as the names. */
const char *vt_names_text(struct vt_names *names, const char *text);

/* Class of a module by its name, NULL = unknown. */
void vt_names_add_class(struct vt_names *names, const char *module, const char *class_name);
const char *vt_names_class(const struct vt_names *names, const char *module);

#endif
