/* Arrays that programs hold in trees of dicts, lists and objects (JAX's pytrees): what a tree is. Its name is
 * one witness. The other is its structure: an optimizer whose classes are known keeps, for each parameter,
 * state of the same shape under the same path. */
#include "attribute/trees.h"

#include <stdlib.h>
#include <string.h>

#include "attribute/owners.h"
#include "base/index.h"
#include "trace/frameworks.h"

/* What one inspection saw below one path: how many arrays, and a sum over their paths from there on, shapes
 * and devices. */
struct tree {
    uint64_t count, sum;
    uint32_t inspection;
    bool is_state;
};

struct forest {
    struct tree *trees;
    size_t count, capacity;
    struct vt_index by_path; /* hash of inspection and path → tree */
    struct vt_index states;  /* signatures of trees of state */
};

static bool begins_step(char c)
{
    return c == '[' || c == '.' || c == '\0';
}

static const char *shape_of(const struct vt_inspection_tensor *tensor)
{
    return tensor->whole_shape[0] ? tensor->whole_shape : tensor->shape;
}

static uint64_t path_key(uint32_t inspection, const char *path, size_t bytes)
{
    return vt_mix(inspection, vt_hash_bytes(path, bytes, VT_HASH_START));
}

static uint64_t signature(const struct tree *tree)
{
    uint64_t parts[] = {tree->inspection, tree->count, tree->sum};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

/* Adds an array to the tree of the first `bytes` of its path. */
static void add_to_tree(struct forest *forest, const struct vt_sighting *seen, size_t bytes, bool is_state)
{
    const struct vt_inspection_tensor *tensor = seen->tensor;
    const char *rest = tensor->path + bytes, *shape = shape_of(tensor);
    uint64_t leaf = vt_hash_bytes(rest, strlen(rest) + 1, VT_HASH_START),
             key = path_key(seen->inspection, tensor->path, bytes);
    leaf = vt_mix(vt_hash_bytes(shape, strlen(shape), leaf), (uint64_t)tensor->device_index);
    uint32_t at = vt_index_get(&forest->by_path, key);
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)forest->count;
        VT_APPEND(forest->trees, forest->count, forest->capacity,
                  (struct tree){.inspection = seen->inspection, .is_state = is_state});
        vt_index_put(&forest->by_path, key, at);
    }
    forest->trees[at].count++;
    forest->trees[at].sum += leaf;
    forest->trees[at].is_state &= is_state;
}

/* Bytes of the path of state up to the tree that is like that of the parameters: after ".mu" of
 * "opt_state[0].mu['w']". 0 = there is none; a number without a shape is no parameter's. */
static size_t state_bytes(const struct vt_inspection_tensor *tensor)
{
    size_t role_bytes = strlen(tensor->role);
    if (!shape_of(tensor)[0])
        return 0;
    for (const char *dot = tensor->path; (dot = strchr(dot, '.')); dot++)
        if (strncmp(dot + 1, tensor->role, role_bytes) == 0 && begins_step(dot[1 + role_bytes]))
            return (size_t)(dot + 1 + role_bytes - tensor->path);
    return 0;
}

static void add_to_trees(struct forest *forest, const struct vt_sighting *seen)
{
    const struct vt_inspection_tensor *tensor = seen->tensor;
    if (tensor->kind == VT_INSPECTION_OPTIMIZER_STATE) {
        size_t bytes = state_bytes(tensor);
        if (bytes)
            add_to_tree(forest, seen, bytes, true);
        return;
    }
    for (size_t bytes = 1; bytes <= strlen(tensor->path); bytes++)
        if (begins_step(tensor->path[bytes]))
            add_to_tree(forest, seen, bytes, false);
}

/* What the name of the outermost tree on the path says that has the structure of state. */
static enum vt_category named_by_structure(const struct forest *forest, const struct vt_sighting *seen)
{
    const char *path = seen->tensor->path;
    for (size_t bytes = 1; bytes <= strlen(path); bytes++) {
        uint32_t at = begins_step(path[bytes])
                          ? vt_index_get(&forest->by_path, path_key(seen->inspection, path, bytes))
                          : VT_INDEX_NONE;
        if (at != VT_INDEX_NONE && !forest->trees[at].is_state &&
            vt_index_get(&forest->states, signature(&forest->trees[at])) != VT_INDEX_NONE)
            return vt_named_path(path, bytes);
    }
    return VT_CATEGORY_UNKNOWN;
}

/* A gradient's name alone says too little: what a variable holds between steps may be a norm, a mean … */
static void set_category(const struct forest *forest, const struct vt_sighting *seen, struct vt_label *label)
{
    enum vt_category category = named_by_structure(forest, seen);
    bool is_sure = category != VT_CATEGORY_UNKNOWN;
    if (!is_sure)
        category = vt_named_path(seen->tensor->path, strlen(seen->tensor->path));
    if (category == VT_CATEGORY_UNKNOWN || (!is_sure && category == VT_CATEGORY_GRADIENT) ||
        label->rule == VT_RULE_INSPECTION ||
        (label->category != VT_CATEGORY_UNKNOWN && label->evidence != VT_EVIDENCE_WEAK))
        return;
    label->category = (uint8_t)category;
    label->evidence = is_sure ? VT_EVIDENCE_STRONG : VT_EVIDENCE_WEAK;
    label->rule = VT_RULE_INSPECTION;
}

static bool is_of_tree(const struct vt_sighting *seen)
{
    return seen->tensor->own_path && (seen->tensor->kind == VT_INSPECTION_TENSOR ||
                                      seen->tensor->kind == VT_INSPECTION_OPTIMIZER_STATE);
}

void vt_trees_judge(const struct vt_sighting *sightings, size_t count, struct vt_label *labels)
{
    struct forest forest = {0};
    for (size_t i = 0; i < count; i++)
        if (is_of_tree(&sightings[i]))
            add_to_trees(&forest, &sightings[i]);
    for (size_t i = 0; i < forest.count; i++)
        if (forest.trees[i].is_state)
            vt_index_put(&forest.states, signature(&forest.trees[i]), 1);
    for (size_t i = 0; i < count; i++)
        if (is_of_tree(&sightings[i]) && sightings[i].tensor->kind == VT_INSPECTION_TENSOR)
            set_category(&forest, &sightings[i], &labels[sightings[i].allocation]);
    vt_index_free(&forest.by_path);
    vt_index_free(&forest.states);
    free(forest.trees);
}
