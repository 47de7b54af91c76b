/* Private to attribution: what looks at live objects call modules and tensors. */
#ifndef VT_NAMES_H
#define VT_NAMES_H

#include "trace/trace.h"

/* A tensor's place: which module holds it, by what name. Several are tied if one storage has all their names.
 */
struct vt_named {
    int32_t root;       /* index into trace->roots, -1 = in no module */
    const char *path;   /* as looked at */
    const char *text;   /* "layers.3.attn.weight", with several roots "generator.layers.3.attn.weight" */
    const char *joined; /* "wte.weight = lm_head.weight"; without ties the same as text */
    const char
        *module; /* "layers.3.attn"; of what the root itself holds the root's name; NULL = in no module */
    uint32_t leader, next, last; /* private: of those that are tied */
};

struct vt_names;
int vt_names_make(const struct vt_trace *trace, struct vt_names **names);
void vt_names_free(struct vt_names *names);

/* Of a tensor of the trace's looks; valid till vt_names_free. */
const struct vt_named *vt_names_tensor(const struct vt_names *names, const struct vt_inspection_tensor *tensor);

/* Objects come and go, and another may get the address of one that is gone: between two changes of what any
 * address means lies an era. */
uint32_t vt_names_era(const struct vt_names *names, uint32_t event_index);
/* The module at an address by the latest look at it, or for what was before it by the first; NULL = no look
 * saw one there. */
const char *vt_names_module(const struct vt_names *names, uint64_t address, uint32_t era);

/* One copy of each text, which lives as long as the names. NULL without memory. */
const char *vt_names_text(struct vt_names *names, const char *text);

/* Class of a module by its name. */
int vt_names_add_class(struct vt_names *names, const char *module, const char *class_name);
const char *vt_names_class(const struct vt_names *names, const char *module);

#endif
