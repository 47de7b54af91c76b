/* What inspections call modules and tensors: paths, after the root's name where there are several roots. */
#include "attribute/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/arena.h"
#include "base/index.h"

#define JOINED_NAMES 4 /* of tied tensors, named in full */
#define NONE UINT32_MAX

/* The module at an address from one inspection on. */
struct meaning {
    uint64_t address;
    const char *module;
    uint32_t event_index;
    uint32_t order; /* in which the inspections recorded them */
    uint32_t count; /* once sorted, of the first of an address: how many it has */
};

struct root {
    const char *name;   /* of the root as a module */
    const char *prefix; /* before the names in it: "" or "generator." */
    bool holds_tensors;
    uint32_t inside;         /* index + 1 of the root that wrapped it later, 0 = none */
    const char *inside_path; /* its path in that root */
};

struct text {
    const char *text;
    const char *class_name; /* of the module of this name; NULL = unknown */
};

struct vt_names {
    const struct vt_trace *trace;
    struct vt_arena arena;
    struct root *roots;
    struct vt_index text_index, named_index, address_index;
    struct text *texts;
    struct vt_named *named;
    struct meaning *meanings; /* at last by address, then by order; address_index has the first of each */
    uint32_t *eras;           /* events at which eras but the first begin */
    size_t text_count, text_capacity, named_count, named_capacity, meaning_count, meaning_capacity, era_count,
        era_capacity;
};

/* Index in `texts`, NONE if it is not there. *key: of text_index. */
static uint32_t find_text(const struct vt_names *names, const char *text, uint64_t *key)
{
    *key = vt_hash_bytes(text, strlen(text), VT_HASH_START);
    uint32_t at = vt_index_get(&names->text_index, *key);
    return at != VT_INDEX_NONE && strcmp(names->texts[at].text, text) == 0 ? at : NONE;
}

static uint32_t add_text(struct vt_names *names, const char *text)
{
    uint64_t key;
    uint32_t at = find_text(names, text, &key);
    if (at != NONE)
        return at;
    at = (uint32_t)names->text_count;
    VT_APPEND(names->texts, names->text_count, names->text_capacity,
              (struct text){.text = vt_arena_text(&names->arena, text, strlen(text))});
    vt_index_put(&names->text_index, key, at);
    return at;
}

const char *vt_names_text(struct vt_names *names, const char *text)
{
    uint32_t at = add_text(names, text); /* may move `texts` */
    return names->texts[at].text;
}

void vt_names_add_class(struct vt_names *names, const char *module, const char *class_name)
{
    uint32_t at = add_text(names, module);
    names->texts[at].class_name = class_name;
}

const char *vt_names_class(const struct vt_names *names, const char *module)
{
    uint64_t key;
    uint32_t at = find_text(names, module, &key);
    return at == NONE ? NULL : names->texts[at].class_name;
}

/* The text of three parts. */
static const char *join_texts(struct vt_names *names, const char *a, const char *b, const char *c)
{
    char *text = vt_print_text("%s%s%s", a, b, c);
    const char *joined = vt_names_text(names, text);
    free(text);
    return joined;
}

/* ---- Roots ---- */

/* A model that is wrapped later (by DistributedDataParallel, torch.compile …) is a root until then, and a
 * module of the wrapper from then on. It is the same model if all its modules keep their addresses there. */
static bool lies_in(const struct vt_inspection *inspection, const struct vt_inspection_module *place,
                    const struct vt_inspection_module *own, size_t own_count)
{
    size_t at = (size_t)(place - inspection->modules);
    for (size_t i = 0; i < own_count; i++, at++) {
        while (at < inspection->module_count && inspection->modules[at].address != own[i].address)
            at++; /* skip wrappers of its parts */
        size_t bytes = strlen(place->path), dot = bytes > 0 && own[i].path[0];
        const char *path = at < inspection->module_count ? inspection->modules[at].path : "";
        if (at >= inspection->module_count || inspection->modules[at].root != place->root ||
            strcmp(inspection->modules[at].class_name, own[i].class_name) != 0 ||
            strncmp(path, place->path, bytes) != 0 || (dot && path[bytes] != '.') ||
            strcmp(path + bytes + dot, own[i].path) != 0)
            return false;
    }
    return true;
}

static void find_wrapped(struct vt_names *names)
{
    const struct vt_trace *trace = names->trace;
    /* modules of each root, as its latest inspection saw them */
    const struct vt_inspection_module **own = vt_allocate_zeros(trace->root_count + 1, sizeof *own);
    size_t *own_count = vt_allocate_zeros(trace->root_count + 1, sizeof *own_count);
    struct vt_index addresses = {0}; /* address of a root → its index */
    for (size_t l = 0; l < trace->inspection_count; l++) {
        const struct vt_inspection *inspection = &trace->inspections[l];
        for (size_t i = 0; i < inspection->module_count; i++) {
            const struct vt_inspection_module *module = &inspection->modules[i];
            uint32_t root = vt_index_get(&addresses, module->address);
            if (root != VT_INDEX_NONE && root != module->root && !names->roots[module->root].inside &&
                lies_in(inspection, module, own[root], own_count[root])) {
                names->roots[root].inside = module->root + 1;
                names->roots[root].inside_path = module->path;
            }
        }
        for (size_t i = 0; i < inspection->module_count; i++) {
            const struct vt_inspection_module *module = &inspection->modules[i];
            if (i == 0 || module->root != inspection->modules[i - 1].root) {
                own[module->root] = module;
                own_count[module->root] = 0;
                names->roots[module->root].inside = 0; /* a root again: another object had its address */
                vt_index_put(&addresses, module->address, module->root);
            }
            own_count[module->root]++;
        }
    }
    vt_index_free(&addresses);
    free(own);
    free(own_count);
}

static const char *base_name(const struct vt_inspection_root *root)
{
    return root->holder[0] ? root->holder : root->class_name[0] ? root->class_name : "module";
}

/* Adds one to the count of a key; returns the new one. */
static uint32_t count_up(struct vt_index *counts, uint64_t key)
{
    uint32_t known = vt_index_get(counts, key), count = known == VT_INDEX_NONE ? 1 : known + 1;
    vt_index_put(counts, key, count);
    return count;
}

/* Numbers roots whose variables have the same name, one after the other or in different functions. */
static void name_root(struct vt_names *names, size_t index, const struct vt_index *counts,
                      struct vt_index *seen)
{
    struct root *root = &names->roots[index];
    const char *base = base_name(&names->trace->roots[index]);
    uint64_t hash = vt_hash_bytes(base, strlen(base), VT_HASH_START);
    char text[24] = "";
    uint32_t number = count_up(seen, hash);
    if (vt_index_get(counts, hash) > 1)
        snprintf(text, sizeof text, "#%u", number);
    root->name = join_texts(names, base, text, "");
    root->prefix = join_texts(names, root->name, ".", "");
}

/* A sole root needs no prefix, unless its modules are a Sequential's, whose names are numbers: "0.weight"
 * says nothing. If a module in it has the same name, the root is called by its class. */
static void drop_prefix(struct vt_names *names, size_t index)
{
    const struct vt_trace *trace = names->trace;
    const char *class_name = trace->roots[index].class_name;
    struct root *root = &names->roots[index];
    bool is_numbered = false, is_doubled = false;
    for (size_t l = 0; l < trace->inspection_count; l++)
        for (size_t i = 0; i < trace->inspections[l].module_count; i++) {
            const struct vt_inspection_module *module = &trace->inspections[l].modules[i];
            if (module->root != index)
                continue;
            is_numbered |= module->path[0] >= '0' && module->path[0] <= '9';
            is_doubled |= strcmp(module->path, root->name) == 0;
        }
    if (is_numbered)
        return;
    root->prefix = "";
    if (is_doubled && class_name[0])
        root->name = class_name;
}

static void name_wrapped(struct vt_names *names)
{
    size_t count = names->trace->root_count;
    for (size_t i = 0; i < count; i++) {
        struct root *root = &names->roots[i], *outer = root;
        size_t depth = 0;
        const char *path = "";
        while (outer->inside && depth++ < count) {
            path = join_texts(names, outer->inside_path, outer->inside_path[0] && path[0] ? "." : "", path);
            outer = &names->roots[outer->inside - 1];
        }
        if (outer == root || outer->inside)
            continue;
        root->name = path[0] ? join_texts(names, outer->prefix, path, "") : outer->name;
        root->prefix = path[0] ? join_texts(names, root->name, ".", "") : outer->prefix;
    }
}

static void name_roots(struct vt_names *names)
{
    const struct vt_trace *trace = names->trace;
    struct vt_index counts = {0}, seen = {0};
    size_t with_tensors = 0, sole = 0;
    for (size_t l = 0; l < trace->inspection_count; l++)
        for (size_t i = 0; i < trace->inspections[l].tensor_count; i++)
            if (trace->inspections[l].tensors[i].root >= 0)
                names->roots[trace->inspections[l].tensors[i].root].holds_tensors = true;
    for (size_t i = 0; i < trace->root_count; i++) {
        const char *base = base_name(&trace->roots[i]);
        if (names->roots[i].inside)
            continue;
        count_up(&counts, vt_hash_bytes(base, strlen(base), VT_HASH_START));
        if (names->roots[i].holds_tensors) {
            with_tensors++;
            sole = i;
        }
    }
    for (size_t i = 0; i < trace->root_count; i++)
        if (!names->roots[i].inside)
            name_root(names, i, &counts, &seen);
    vt_index_free(&counts);
    vt_index_free(&seen);
    if (with_tensors == 1)
        drop_prefix(names, sole);
    name_wrapped(names);
}

/* ---- Modules ---- */

static const char *module_name(struct vt_names *names, int32_t root_index, const char *path)
{
    const struct root *root = &names->roots[root_index];
    return path[0] ? join_texts(names, root->prefix, path, "") : root->name;
}

static void add_meaning(struct vt_names *names, const struct vt_inspection *inspection,
                        const struct vt_inspection_module *module)
{
    const char *name = module_name(names, (int32_t)module->root, module->path);
    uint32_t at = vt_index_get(&names->address_index, module->address); /* before the sort: the latest */
    vt_names_add_class(names, name, module->class_name);
    if (at != VT_INDEX_NONE && names->meanings[at].module == name)
        return;
    struct meaning added = {.address = module->address,
                            .module = name,
                            .event_index = inspection->event_index,
                            .order = (uint32_t)names->meaning_count};
    VT_APPEND(names->meanings, names->meaning_count, names->meaning_capacity, added);
    vt_index_put(&names->address_index, module->address, added.order);
    if (at != VT_INDEX_NONE &&
        (names->era_count == 0 || names->eras[names->era_count - 1] != inspection->event_index))
        VT_APPEND(names->eras, names->era_count, names->era_capacity, inspection->event_index);
}

static int compare_meanings(const void *a, const void *b)
{
    const struct meaning *left = a, *right = b;
    return 2 * vt_order(left->address, right->address) + vt_order(left->order, right->order);
}

static void sort_meanings(struct vt_names *names)
{
    size_t count = names->meaning_count;
    if (count > 1)
        qsort(names->meanings, count, sizeof *names->meanings, compare_meanings);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && names->meanings[end].address == names->meanings[i].address; end++)
            ;
        names->meanings[i].count = (uint32_t)(end - i);
        vt_index_put(&names->address_index, names->meanings[i].address, (uint32_t)i);
    }
}

/* For vt_lower_bound: finds the first meaning that begins after the event. */
static int compare_beginning(const void *meaning, const void *event_index)
{
    return ((const struct meaning *)meaning)->event_index <= *(const uint32_t *)event_index ? -1 : 1;
}

uint32_t vt_names_era(const struct vt_names *names, uint32_t event_index)
{
    return (uint32_t)vt_count_up_to(names->eras, names->era_count, event_index);
}

const char *vt_names_module(const struct vt_names *names, uint64_t address, uint32_t era)
{
    uint32_t at = vt_index_get(&names->address_index, address);
    if (at == VT_INDEX_NONE)
        return NULL;
    uint32_t start = era > 0 ? names->eras[era - 1] : 0;
    const struct meaning *first = &names->meanings[at];
    size_t begun = vt_lower_bound(first, first->count, sizeof *first, &start, compare_beginning);
    return first[begun > 0 ? begun - 1 : 0].module;
}

/* ---- Tensors ---- */

static uint64_t named_key(int32_t root, const char *path)
{
    uint64_t parts[] = {(uint64_t)(int64_t)root, (uint64_t)(uintptr_t)path};
    return vt_hash_bytes(parts, sizeof parts, VT_HASH_START);
}

/* The trace has one copy of each path, so addresses are compared. */
static uint32_t find_named(const struct vt_names *names, const struct vt_inspection_tensor *tensor)
{
    uint32_t at = vt_index_get(&names->named_index, named_key(tensor->root, tensor->path));
    bool same =
        at != VT_INDEX_NONE && names->named[at].root == tensor->root && names->named[at].path == tensor->path;
    return same ? at : NONE;
}

const struct vt_named *vt_names_tensor(const struct vt_names *names,
                                       const struct vt_inspection_tensor *tensor)
{
    uint32_t at = find_named(names, tensor);
    return at == NONE ? NULL : &names->named[at];
}

static const char *holding_module(struct vt_names *names, int32_t root, const char *path)
{
    const char *dot = strrchr(path, '.');
    if (!dot)
        return names->roots[root].name;
    char *parent = vt_copy_bytes(path, (size_t)(dot - path));
    const char *name = module_name(names, root, parent);
    free(parent);
    return name;
}

static uint32_t add_named(struct vt_names *names, const struct vt_inspection_tensor *tensor)
{
    uint32_t found = find_named(names, tensor);
    if (found != NONE)
        return found;
    struct vt_named named = {.root = tensor->root, .path = tensor->path, .text = tensor->path};
    const char *dot =
        tensor->kind == VT_INSPECTION_TENSOR && !tensor->own_path ? strrchr(tensor->path, '.') : NULL;
    if (dot) { /* its library names modules so, without objects for them */
        char *module = vt_copy_bytes(tensor->path, (size_t)(dot - tensor->path));
        named.module = vt_names_text(names, module);
        free(module);
    }
    if (tensor->root >= 0) {
        named.text = join_texts(names, names->roots[tensor->root].prefix, tensor->path, "");
        named.module = holding_module(names, tensor->root, tensor->path);
    }
    found = (uint32_t)names->named_count;
    named.joined = named.text;
    named.leader = named.last = found;
    named.next = NONE;
    vt_index_put(&names->named_index, named_key(tensor->root, tensor->path), found);
    VT_APPEND(names->named, names->named_count, names->named_capacity, named);
    return found;
}

static uint32_t leader_of(struct vt_named *named, uint32_t at)
{
    while (named[at].leader != at)
        at = named[at].leader = named[named[at].leader].leader;
    return at;
}

static void tie_names(struct vt_named *named, uint32_t a, uint32_t b)
{
    a = leader_of(named, a);
    b = leader_of(named, b);
    if (a == b || (named[a].root < 0) != (named[b].root < 0))
        return;
    named[named[a].last].next = b;
    named[a].last = named[b].last;
    named[b].leader = a;
}

/* Ties the names that one inspection gives to one span of memory. Not the paths of arrays: these begin at
 * variables, which hold other arrays at other times. */
static void tie_tensors(struct vt_names *names, const struct vt_inspection *inspection)
{
    struct vt_index spans = {0};
    for (size_t i = 0; i < inspection->tensor_count; i++) {
        const struct vt_inspection_tensor *tensor = &inspection->tensors[i];
        uint32_t at = add_named(names, tensor);
        if (tensor->bytes == 0 || tensor->kind > VT_INSPECTION_BUFFER || tensor->own_path)
            continue;
        uint64_t span[] = {tensor->data_address, tensor->bytes, (uint64_t)tensor->device_index};
        uint64_t hash = vt_hash_bytes(span, sizeof span, VT_HASH_START);
        uint32_t known = vt_index_get(&spans, hash);
        if (known == VT_INDEX_NONE)
            vt_index_put(&spans, hash, at);
        else
            tie_names(names->named, known, at);
    }
    vt_index_free(&spans);
}

static void join_tied(struct vt_names *names)
{
    struct vt_named *named = names->named;
    for (uint32_t i = 0; i < names->named_count; i++) {
        if (named[i].leader != i)
            continue;
        uint32_t count = 1, at = named[i].next;
        for (; at != NONE && count < JOINED_NAMES; at = named[at].next, count++)
            named[i].joined = join_texts(names, named[i].joined, " = ", named[at].text);
        if (at != NONE)
            named[i].joined = join_texts(names, named[i].joined, " = …", "");
    }
    for (uint32_t i = 0; i < names->named_count; i++)
        named[i].joined = named[leader_of(named, i)].joined;
}

/* ---- All ---- */

struct vt_names *vt_names_make(const struct vt_trace *trace)
{
    struct vt_names *names = vt_allocate_zeros(1, sizeof *names);
    names->trace = trace;
    names->roots = vt_allocate_zeros(trace->root_count + 1, sizeof *names->roots);
    find_wrapped(names);
    name_roots(names);
    for (size_t l = 0; l < trace->inspection_count; l++) {
        const struct vt_inspection *inspection = &trace->inspections[l];
        for (size_t i = 0; i < inspection->module_count; i++)
            add_meaning(names, inspection, &inspection->modules[i]);
        tie_tensors(names, inspection);
    }
    sort_meanings(names);
    join_tied(names);
    return names;
}

void vt_names_free(struct vt_names *names)
{
    if (!names)
        return;
    vt_index_free(&names->text_index);
    vt_index_free(&names->named_index);
    vt_index_free(&names->address_index);
    vt_arena_free(&names->arena);
    free(names->roots);
    free(names->texts);
    free(names->named);
    free(names->meanings);
    free(names->eras);
    free(names);
}
