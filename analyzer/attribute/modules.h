/* Names of modules, by stacks. */
#ifndef VT_ATTRIBUTE_MODULES_H
#define VT_ATTRIBUTE_MODULES_H

#include <stdint.h>

struct vt_names;
struct vt_traits_by_stack;

/* A module that an inspection saw has its name ("layers.3.attn"), and what it
 * calls comes after it ("layers.3 > Foo") unless an inspection saw that too. Without inspections the name is
 * of classes, "TransformerEncoderLayer#3 > MultiheadAttention": a number tells modules of one class under one
 * parent apart, in the order in which they show first, and a root that holds all others is left out. Names
 * live as long as `names`. */
struct vt_module_tree;
struct vt_module_tree *vt_module_tree_make(const struct vt_traits_by_stack *sites, struct vt_names *names);
void vt_module_tree_free(struct vt_module_tree *tree);
/* NULL = outside of any module. */
const char *vt_module_tree_find(struct vt_module_tree *tree, uint32_t stack_id, uint32_t event_index);

#endif
