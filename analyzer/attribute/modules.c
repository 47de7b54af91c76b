/* The module of a stack: by its name where an inspection saw it, else by the classes that the stack shows. */
#include "attribute/modules.h"

#include "attribute/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/module_names.h"

/* One module in its caller: its class, and its number among siblings of that class. */
struct node {
    uint32_t parent; /* index of a node, 0 = the root */
    uint64_t self_address;
    const char *class_name;
    uint32_t class_bytes;
    uint32_t number;
    bool has_siblings; /* of its class */
    uint32_t child;    /* the latest child that has a class, 0 = none */
    uint32_t children; /* count of those that have a class */
};

struct vt_module_tree {
    const struct vt_traits_by_stack *sites;
    struct node *nodes; /* node 0 is the parent of all roots */
    size_t count, capacity;
    struct vt_index index;    /* hash of (parent, self) → node */
    struct vt_index siblings; /* hash of (parent, class) → the latest such node */
    struct vt_names *names;
    uint32_t *inmost;   /* by stack id: node of its innermost module, 0 = none */
    uint32_t sole_root; /* the only root, which names of classes leave out; 0 = none */
    const char **labels;
    struct vt_index label_index; /* era and node → label */
    uint32_t *chain;
    size_t label_count, label_capacity, chain_capacity;
};

/* "Outer.Inner.forward" → "Inner". Before Python 3.11 there is no qualified name; then the name of the file,
 * "linear", is used. */
static const char *class_of(const struct vt_trace_code *code, uint32_t *bytes)
{
    const char *end = strrchr(code->name, '.'), *start = end;
    if (end) {
        while (start > code->name && start[-1] != '.')
            start--;
    } else {
        const char *slash = strrchr(code->file, '/');
        start = slash ? slash + 1 : code->file;
        end = strchr(start, '.');
    }
    *bytes = (uint32_t)(end ? (size_t)(end - start) : strlen(start));
    return start;
}

static uint32_t find_node(struct vt_module_tree *tree, uint32_t parent, uint64_t self_address)
{
    uint64_t key = vt_mix(parent, self_address);
    uint32_t known = vt_index_get(&tree->index, key);
    if (known != VT_INDEX_NONE && tree->nodes[known].parent == parent &&
        tree->nodes[known].self_address == self_address)
        return known;
    const uint32_t made = (uint32_t)tree->count;
    vt_index_put(&tree->index, key, made);
    VT_APPEND(tree->nodes, tree->count, tree->capacity,
              (struct node){.parent = parent, .self_address = self_address});
    return made;
}

/* Numbers a node among the children of its parent that have its class. */
static void number_node(struct vt_module_tree *tree, uint32_t index)
{
    struct node *node = &tree->nodes[index], *parent = &tree->nodes[node->parent];
    uint64_t key = vt_hash_bytes(node->class_name, node->class_bytes, node->parent);
    uint32_t latest = vt_index_get(&tree->siblings, key);
    node->number = 1;
    if (latest != VT_INDEX_NONE) {
        struct node *sibling = &tree->nodes[latest];
        node->has_siblings = sibling->has_siblings = true;
        node->number = sibling->number + 1;
    }
    parent->child = index;
    parent->children++;
    vt_index_put(&tree->siblings, key, index);
}

/* Walks a stack from the outside in. Returns the node of its innermost module, 0 if there is none. */
static uint32_t enter_stack(struct vt_module_tree *tree, const struct vt_trace_stack *stack)
{
    const struct vt_traits_by_stack *sites = tree->sites;
    const struct vt_trace *trace = sites->trace;
    uint32_t inmost = 0;
    for (uint32_t i = stack->python_count; i-- > 0;) {
        const struct vt_python_frame *frame = &stack->python[i];
        if (frame->self_address == 0 || frame->code_id >= trace->code_count ||
            !trace->codes[frame->code_id].file ||
            vt_traits_by_stack_code_is(sites, frame->code_id, VT_CODE_STEP))
            continue;
        if (inmost == 0 || tree->nodes[inmost].self_address != frame->self_address)
            inmost = find_node(tree, inmost, frame->self_address);
        struct node *node = &tree->nodes[inmost];
        uint32_t bytes = 0;
        const char *class_name = vt_traits_by_stack_code_is(sites, frame->code_id, VT_CODE_FORWARD)
                                     ? class_of(&trace->codes[frame->code_id], &bytes)
                                     : NULL;
        if (bytes > 0 && !node->class_name) {
            node->class_name = class_name;
            node->class_bytes = bytes;
            number_node(tree, inmost);
        }
    }
    return inmost;
}

/* The class, with a number if siblings have the same class. */
static void name_by_class(const struct node *node, char *text, size_t bytes)
{
    int used = snprintf(text, bytes, "%.*s", node->class_bytes < 64 ? (int)node->class_bytes : 64,
                        node->class_name ? node->class_name : "");
    if (used == 0)
        used = snprintf(text, bytes, "Module");
    if (node->has_siblings)
        snprintf(text + used, bytes - (size_t)used, "#%u", node->number);
}

/* The name of a node after that of its parent, if that has one. */
static const char *name_below(struct vt_module_tree *tree, const struct node *node, const char *above)
{
    char own[96], class_name[72], text[512];
    name_by_class(node, own, sizeof own);
    if (!above || strlen(above) > 400)
        above = "";
    snprintf(text, sizeof text, "%.400s%s%s", above, above[0] ? VT_MODULE_CLASSES : "", own);
    snprintf(class_name, sizeof class_name, "%.*s", (int)strcspn(own, "#"), own);
    const char *name = vt_names_text(tree->names, text);
    vt_names_add_class(tree->names, name, vt_names_text(tree->names, class_name));
    return name;
}

/* Walks from the node up to one whose name is known, then names the nodes on the way down. */
static const char *label_node(struct vt_module_tree *tree, uint32_t index, uint32_t era)
{
    size_t count = 0;
    const char *label = NULL;
    for (uint32_t at = index; at != 0; at = tree->nodes[at].parent) {
        uint32_t known = vt_index_get(&tree->label_index, (uint64_t)era << 32 | at);
        label = known != VT_INDEX_NONE ? tree->labels[known]
                                       : vt_names_module(tree->names, tree->nodes[at].self_address, era);
        if (label)
            break;
        VT_APPEND(tree->chain, count, tree->chain_capacity, at);
    }
    while (count-- > 0) {
        const struct node *node = &tree->nodes[tree->chain[count]];
        label = name_below(tree, node, node->parent == tree->sole_root ? NULL : label);
        vt_index_put(&tree->label_index, (uint64_t)era << 32 | tree->chain[count],
                     (uint32_t)tree->label_count);
        VT_APPEND(tree->labels, tree->label_count, tree->label_capacity, label);
    }
    return label;
}

struct vt_module_tree *vt_module_tree_make(const struct vt_traits_by_stack *sites, struct vt_names *names)
{
    const struct vt_trace *trace = sites->trace;
    struct vt_module_tree *tree = vt_allocate_zeros(1, sizeof *tree);
    tree->sites = sites;
    tree->names = names;
    tree->inmost = vt_allocate_zeros(trace->stack_count, sizeof *tree->inmost);
    find_node(tree, 0, 0); /* node 0 */
    for (size_t id = 0; id < trace->stack_count; id++)
        tree->inmost[id] = enter_stack(tree, &trace->stacks[id]);
    if (tree->count > 2 && tree->nodes[0].children == 1 &&
        !vt_names_module(names, tree->nodes[tree->nodes[0].child].self_address, 0))
        tree->sole_root = tree->nodes[0].child;
    return tree;
}

const char *vt_module_tree_find(struct vt_module_tree *tree, uint32_t stack_id, uint32_t event_index)
{
    if (stack_id >= tree->sites->trace->stack_count || tree->inmost[stack_id] == 0)
        return NULL;
    return label_node(tree, tree->inmost[stack_id], vt_names_era(tree->names, event_index));
}

void vt_module_tree_free(struct vt_module_tree *tree)
{
    if (!tree)
        return;
    free(tree->nodes);
    vt_index_free(&tree->index);
    vt_index_free(&tree->siblings);
    free(tree->inmost);
    free(tree->labels);
    vt_index_free(&tree->label_index);
    free(tree->chain);
    free(tree);
}
