/* Private to attribution: what stacks say of the operator and the module. */
#ifndef VT_OWNERS_H
#define VT_OWNERS_H

#include "attribute/attribute.h"
#include "attribute/names.h"
#include "attribute/sites.h"

/* Modules by stacks. One that a look saw has its name ("layers.3.attn"), what it calls and no look saw comes
 * after it
 * ("layers.3 > Foo"); else "TransformerEncoderLayer#3 > MultiheadAttention": instances of one class under one
 * parent are told apart by number, in the order in which they first show; a root that holds everything is
 * left out. Names live as long as `names`. *module NULL = outside of any module. */
struct vt_module_tree;
int vt_module_tree_make(const struct vt_sites *sites, struct vt_names *names, struct vt_module_tree **tree);
void vt_module_tree_free(struct vt_module_tree *tree);
int vt_module_tree_find(struct vt_module_tree *tree, uint32_t stack_id, uint32_t event_index,
                        const char **module);

/* Sets forward_stack_id of what backward made, by autograd's node numbers. */
int vt_join_backward(const struct vt_replay *replay, const struct vt_sites *sites, struct vt_label *labels);

#endif
