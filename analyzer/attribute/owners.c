/* What stacks say of the operator and the module, and the join of backward to forward. */
#include "attribute/owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/index.h"

/* ---- Operators ---- */

#define OPS "at::_ops::"
#define GENERATED "torch::autograd::generated::"

/* "at::_ops::addmm::call" → "aten::addmm", "torch::autograd::generated::AddmmBackward0::apply" →
 * "AddmmBackward0"; NULL for other functions. */
static const char *operator_of_symbol(const char *function, struct vt_arena *arena)
{
    char name[160];
    const char *start, *end;
    if (strncmp(function, OPS, sizeof OPS - 1) == 0) {
        start = function + sizeof OPS - 1;
        end = strstr(start, "::");
        if (!end || end - start > 150)
            return NULL;
        snprintf(name, sizeof name, "aten::%.*s", (int)(end - start), start);
    } else if (strncmp(function, GENERATED, sizeof GENERATED - 1) == 0) {
        start = function + sizeof GENERATED - 1;
        end = strstr(start, "::apply");
        if (!end || end[7] != '\0' || end - start > 150)
            return NULL;
        snprintf(name, sizeof name, "%.*s", (int)(end - start), start);
    } else {
        return NULL;
    }
    return vt_arena_text(arena, name, strlen(name));
}

/* The outermost operator that native frames show; frames beyond Python are not there, so in a checkpoint's
 * second forward this is the forward operator. */
int vt_operators_find(const struct vt_trace *trace, struct vt_arena *arena, const char **operators)
{
    struct vt_index seen = {0}; /* address → names + 1, 0 = no operator */
    const char **names = NULL;
    size_t count = 0, capacity = 0;
    int error = 0;
    for (size_t id = 0; id < trace->stack_count && !error; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        for (uint32_t i = stack->native_count; i-- > 0 && !operators[id] && !error;) {
            uint32_t known = vt_index_get(&seen, stack->native[i]);
            if (known == VT_INDEX_NONE) {
                const struct vt_trace_symbol *symbol = vt_trace_symbol(trace, stack->native[i]);
                const char *name = symbol ? operator_of_symbol(symbol->short_name, arena) : NULL;
                known = 0;
                if (name)
                    error = vt_reserve(&names, &capacity, count + 1, sizeof *names);
                if (name && !error) {
                    names[count++] = name;
                    known = (uint32_t)count;
                }
                if (!error)
                    error = vt_index_put(&seen, stack->native[i], known);
            }
            if (known > 0)
                operators[id] = names[known - 1];
        }
    }
    vt_index_free(&seen);
    free(names);
    return error;
}

/* ---- Modules ---- */

/* One module where it is called: its class, and its number among its siblings of that class. */
struct node {
    uint32_t parent; /* index of a node, 0 = the root */
    uint64_t self_address;
    const char *class_name;
    uint32_t class_bytes;
    uint32_t number;
    bool has_siblings; /* of its class */
    uint32_t next;     /* of the same parent, 0 = none */
    uint32_t child;    /* first */
    const char *label;
};

struct module_tree {
    const struct vt_trace *trace;
    struct node *nodes; /* 0 is above all roots */
    size_t count, capacity;
    struct vt_index index; /* hash of (parent, self) → node */
};

/* "Outer.Inner.forward" → "Inner". Before Python 3.11 there is no qualified name: the file's stands in,
 * "linear". Of other functions `bytes` is 0. */
static const char *class_of(const struct vt_trace_code *code, uint32_t *bytes)
{
    const char *end = strrchr(code->name, '.'), *start = code->name;
    *bytes = 0;
    if (strcmp(code->name, "forward") == 0) {
        const char *slash = strrchr(code->file, '/');
        start = slash ? slash + 1 : code->file;
        end = strchr(start, '.');
    } else if (!end || strcmp(end, ".forward") != 0) {
        return NULL;
    } else {
        for (start = end; start > code->name && start[-1] != '.'; start--)
            ;
    }
    *bytes = (uint32_t)(end ? (size_t)(end - start) : strlen(start));
    return start;
}

static uint64_t node_key(uint32_t parent, uint64_t self_address)
{
    uint64_t key = (self_address ^ (uint64_t)parent << 48) * UINT64_C(0x9e3779b97f4a7c15);
    return key ^ (key >> 31) ^ parent;
}

static int find_node(struct module_tree *tree, uint32_t parent, uint64_t self_address, uint32_t *found)
{
    uint64_t key = node_key(parent, self_address);
    uint32_t known = vt_index_get(&tree->index, key);
    if (known != VT_INDEX_NONE && tree->nodes[known].parent == parent &&
        tree->nodes[known].self_address == self_address) {
        *found = known;
        return 0;
    }
    int error = vt_reserve(&tree->nodes, &tree->capacity, tree->count + 1, sizeof *tree->nodes);
    if (!error)
        error = vt_index_put(&tree->index, key, (uint32_t)tree->count);
    if (error)
        return error;
    *found = (uint32_t)tree->count++;
    tree->nodes[*found] = (struct node){.parent = parent, .self_address = self_address};
    return 0;
}

/* Numbers a node among its parent's children of its class, once the class is known. */
static void number_node(struct module_tree *tree, uint32_t index)
{
    struct node *node = &tree->nodes[index], *parent = &tree->nodes[node->parent];
    node->number = 1;
    for (uint32_t at = parent->child; at != 0; at = tree->nodes[at].next) {
        struct node *sibling = &tree->nodes[at];
        if (sibling->class_bytes != node->class_bytes ||
            memcmp(sibling->class_name, node->class_name, node->class_bytes) != 0)
            continue;
        node->has_siblings = sibling->has_siblings = true;
        if (sibling->number >= node->number)
            node->number = sibling->number + 1;
        break; /* the latest comes first, so its number is the highest */
    }
    node->next = parent->child;
    parent->child = index;
}

/* Walks a stack from the outside in. *inmost is the node of its innermost module, 0 if there is none. */
static int enter_stack(struct module_tree *tree, const struct vt_trace_stack *stack, uint32_t *inmost)
{
    const struct vt_trace *trace = tree->trace;
    *inmost = 0;
    for (uint32_t i = stack->python_count; i-- > 0;) {
        const struct vt_python_frame *frame = &stack->python[i];
        if (frame->self_address == 0 || frame->code_id >= trace->code_count ||
            !trace->codes[frame->code_id].file || strstr(trace->codes[frame->code_id].file, "/optim"))
            continue;
        if (*inmost == 0 || tree->nodes[*inmost].self_address != frame->self_address) {
            int error = find_node(tree, *inmost, frame->self_address, inmost);
            if (error)
                return error;
        }
        struct node *node = &tree->nodes[*inmost];
        uint32_t bytes;
        const char *class_name = class_of(&trace->codes[frame->code_id], &bytes);
        if (bytes > 0 && !node->class_name) {
            node->class_name = class_name;
            node->class_bytes = bytes;
            number_node(tree, *inmost);
        }
    }
    return 0;
}

/* Nodes come after their parents, whose labels are there already. */
static int label_node(struct module_tree *tree, struct vt_arena *arena, uint32_t index, uint32_t sole_root)
{
    struct node *node = &tree->nodes[index];
    char own[96], text[512];
    int bytes = snprintf(own, sizeof own, "%.*s", node->class_bytes < 64 ? (int)node->class_bytes : 64,
                         node->class_name ? node->class_name : "");
    if (bytes == 0)
        bytes = snprintf(own, sizeof own, "Module");
    if (node->has_siblings)
        snprintf(own + bytes, sizeof own - (size_t)bytes, "#%u", node->number);
    const char *above = node->parent != sole_root ? tree->nodes[node->parent].label : NULL;
    if (!above || strlen(above) > 400)
        above = "";
    snprintf(text, sizeof text, "%.400s%s%s", above, above[0] ? " > " : "", own);
    node->label = vt_arena_text(arena, text, strlen(text));
    return node->label ? 0 : -ENOMEM;
}

int vt_modules_find(const struct vt_trace *trace, struct vt_arena *arena, const char **modules)
{
    struct module_tree tree = {.trace = trace};
    uint32_t *inmost = calloc(trace->stack_count, sizeof *inmost), above = 0;
    int error = inmost ? find_node(&tree, 0, 0, &above) : -ENOMEM; /* node 0 */
    for (size_t id = 0; id < trace->stack_count && !error; id++)
        error = enter_stack(&tree, &trace->stacks[id], &inmost[id]);
    uint32_t sole_root = 0;
    if (!error && tree.count > 2 && tree.nodes[0].child && tree.nodes[tree.nodes[0].child].next == 0)
        sole_root = tree.nodes[0].child;
    for (uint32_t i = 1; i < tree.count && !error; i++)
        error = label_node(&tree, arena, i, sole_root);
    for (size_t id = 0; id < trace->stack_count && !error; id++)
        modules[id] = tree.nodes[inmost[id]].label;
    free(inmost);
    free(tree.nodes);
    vt_index_free(&tree.index);
    return error;
}

/* ---- Backward to forward ---- */

/* Forward events carry the number of the latest node on their thread: the first with a number is the node's
 * own operator's, those that follow are of operators without a node. Each thread counts for itself, so a
 * later run of the same number (in a checkpoint's second forward) is another node, and the one that runs
 * next. */
int vt_join_backward(struct vt_replay *replay, const uint8_t *grad_mode)
{
    const struct vt_trace *trace = replay->trace;
    struct vt_index stacks = {0}; /* node number → stack of the forward operator */
    struct vt_index latest = {0}; /* thread → node number, its low bits */
    int error = 0;
    for (size_t i = 0; i < replay->allocation_count && !error; i++) {
        struct vt_allocation *block = &replay->allocations[i];
        if (block->sequence < 2)
            continue;
        uint64_t number = (block->sequence - 2) / 2;
        if (block->sequence % 2 == 0) {
            if (!grad_mode[block->alloc_event] || block->stack_id >= trace->stack_count)
                continue;
            uint32_t thread_id = trace->stacks[block->stack_id].thread_id;
            uint32_t low = (uint32_t)number & 0x7fffffffu;
            if (vt_index_get(&latest, thread_id) == low)
                continue;
            error = vt_index_put(&latest, thread_id, low);
            if (!error)
                error = vt_index_put(&stacks, number, block->stack_id);
        } else {
            uint32_t stack_id = vt_index_get(&stacks, number);
            block->forward_stack_id = stack_id == VT_INDEX_NONE ? 0 : stack_id;
        }
    }
    vt_index_free(&stacks);
    vt_index_free(&latest);
    return error;
}
