/* What native frames say of the operator. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/owners.h"
#include "base/index.h"

/* Functions whose names hold an operator's or a node's: PREFIX name SUFFIX, and what follows. In order. */
static const struct {
    const char *prefix, *suffix, *shown;
} forms[] = {
    {"at::_ops::", "::", "aten::"},                  /* at::_ops::addmm::call */
    {"torch::autograd::generated::", "::apply", ""}, /* …::AddmmBackward0::apply */
    {"torch::autograd::CppNode<", ">::apply",
     ""}, /* …<vision::ops::(anonymous namespace)::ROIAlignFunction>::apply */
    {"torch::autograd::CppNode", "", NULL},  /* not known by another name: none */
    {"torch::autograd::Function", "", NULL}, /* a node's forward */
    {"torch::autograd::PyNode", "", NULL},   /* its class is Python's */
    {"torch::autograd::", "::apply", ""},    /* torch::autograd::AccumulateGrad::apply */
};

/* The name's last part: C++ classes of others have theirs in namespaces. */
static size_t last_part(const char *name, size_t bytes)
{
    size_t start = bytes;
    while (start > 0 && name[start - 1] != ':')
        start--;
    return start;
}

/* "at::_ops::addmm::call" → "aten::addmm", "torch::autograd::generated::AddmmBackward0::apply" →
 * "AddmmBackward0"; NULL for other functions. */
static const char *operator_of_symbol(const struct vt_trace_symbol *symbol, struct vt_arena *arena)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        /* shortened, templates have lost what they are of */
        const char *function = strchr(forms[i].prefix, '<') ? symbol->name : symbol->short_name;
        size_t prefix_bytes = strlen(forms[i].prefix);
        if (strncmp(function, forms[i].prefix, prefix_bytes) != 0)
            continue;
        if (!forms[i].shown)
            return NULL;
        const char *start = function + prefix_bytes, *end = strstr(start, forms[i].suffix);
        if (!end || end - start > 150)
            continue;
        start += last_part(start, (size_t)(end - start));
        char name[192];
        snprintf(name, sizeof name, "%s%.*s", forms[i].shown, (int)(end - start), start);
        return vt_arena_text(arena, name, strlen(name));
    }
    return NULL;
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
                const char *name = symbol ? operator_of_symbol(symbol, arena) : NULL;
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
