/* Operators of stacks, and the traits that no pattern finds: they depend on where in a function a call was
 * made, or on which frame is inside which. */
#include "attribute/match.h"
#include "attribute/stack_traits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/rules.h"
#include "base/allocate.h"
#include "base/index.h"

#define OPERATOR_BYTES 150 /* longer names are of something else */

/* ---- Operators ---- */

static const struct {
    const char *begin, *end, *shown;
} forms[] = {
#define VT_OPERATOR(begin, end, shown) {begin, end, shown},
#include "trace/frameworks.def"
};

/* C++ classes of other libraries have their names in namespaces. */
static const char *last_part(const char *begin, const char *end)
{
    while (end > begin && end[-1] != ':')
        end--;
    return end;
}

/* "at::_ops::addmm::call" → "aten::addmm", "torch::autograd::generated::AddmmBackward0::apply" →
 * "AddmmBackward0"; NULL for other functions. */
static const char *operator_of_symbol(const struct vt_trace_symbol *symbol, struct vt_arena *arena)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        /* a short name lacks the arguments of templates */
        const char *function = strchr(forms[i].begin, '<') ? symbol->name : symbol->short_name;
        size_t begin_bytes = strlen(forms[i].begin);
        if (strncmp(function, forms[i].begin, begin_bytes) != 0)
            continue;
        if (!forms[i].shown)
            return NULL;
        const char *begin = function + begin_bytes, *end = strstr(begin, forms[i].end);
        if (!end || end - begin > OPERATOR_BYTES)
            continue;
        begin = last_part(begin, end);
        char name[OPERATOR_BYTES + 42];
        snprintf(name, sizeof name, "%s%.*s", forms[i].shown, (int)(end - begin), begin);
        return vt_arena_text(arena, name, strlen(name));
    }
    return NULL;
}

/* Names of operators by the address of their function; most addresses have none. */
struct operators {
    struct vt_index index; /* address → names + 1, 0 = no operator */
    const char **names;
    size_t count, capacity;
};

static const char *find_operator(struct vt_traits_by_stack *sites, struct operators *operators,
                                 uint64_t address)
{
    uint32_t known = vt_index_get(&operators->index, address);
    if (known == VT_INDEX_NONE) {
        const struct vt_trace_symbol *symbol = vt_trace_symbol(sites->trace, address);
        const char *found = symbol ? operator_of_symbol(symbol, &sites->arena) : NULL;
        if (found)
            VT_APPEND(operators->names, operators->count, operators->capacity, found);
        known = found ? (uint32_t)operators->count : 0;
        vt_index_put(&operators->index, address, known);
    }
    return known > 0 ? operators->names[known - 1] : NULL;
}

/* The outermost operator of a stack. Its native frames end at the interpreter, so in the second forward of a
 * checkpoint this is the forward operator. */
static void find_operators(struct vt_traits_by_stack *sites)
{
    const struct vt_trace *trace = sites->trace;
    struct operators operators = {0};
    for (size_t id = 0; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        const char **name = &sites->items[id].operator_name;
        for (uint32_t i = stack->native_count; i-- > 0 && !*name;)
            *name = find_operator(sites, &operators, stack->native[i]);
    }
    vt_index_free(&operators.index);
    free(operators.names);
}

/* ---- Traits ---- */

/* The innermost frame of Module._apply, NULL = none. */
static const struct vt_python_frame *apply_frame(const struct vt_traits_by_stack *sites, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &sites->trace->stacks[stack_id];
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (vt_traits_by_stack_code_is(sites, stack->python[i].code_id, VT_CODE_APPLY))
            return &stack->python[i];
    return NULL;
}

/* Module._apply converts parameters at one place in its code and then buffers at another. The offset in its
 * innermost call shows which; where all stacks have one place, nothing is known. */
static void find_buffers(struct vt_traits_by_stack *sites)
{
    int32_t first = INT32_MAX, last = -1;
    uint32_t code_id = 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t id = 1; id < sites->trace->stack_count; id++) {
            const struct vt_python_frame *frame =
                sites->items[id].traits & VT_TRAIT(MODULE_APPLY) ? apply_frame(sites, id) : NULL;
            if (!frame)
                continue;
            int32_t offset = frame->instruction_offset;
            if (round == 0) {
                first = offset < first ? offset : first;
                last = offset > last ? offset : last;
                code_id = frame->code_id;
            } else if (offset == last && last > first && frame->code_id == code_id) {
                sites->items[id].traits |= VT_TRAIT(BUFFER);
            }
        }
    }
}

/* The frames of an optimizer's step in a stack, as indices of its Python frames (0 = innermost). */
struct step_frames {
    uint32_t step;  /* where the innermost step begins; python_count = none */
    uint32_t owner; /* the first function in it that is the optimizer's own */
};

static bool frame_is(const struct vt_traits_by_stack *sites, const struct vt_trace_stack *stack, uint32_t at,
                     enum vt_code_class code_class)
{
    return vt_traits_by_stack_code_is(sites, stack->python[at].code_id, code_class);
}

static struct step_frames find_step(const struct vt_traits_by_stack *sites,
                                    const struct vt_trace_stack *stack)
{
    struct step_frames found = {stack->python_count, 0};
    for (uint32_t i = 0; i < stack->python_count && found.step == stack->python_count; i++)
        if (frame_is(sites, stack, i, VT_CODE_OPTIMIZER_STEP))
            found.step = found.owner = i;
    while (found.owner > 0 && found.step < stack->python_count &&
           frame_is(sites, stack, found.owner, VT_CODE_WRAPPER))
        found.owner--;
    return found;
}

/* A method of the same class, or a function within one: "LBFGS.step", "LBFGS.step.<locals>.obj_func". Before
 * Python 3.11 names have no class; a library has its optimizer in a file of its own. */
static bool of_same_class(const struct vt_traits_by_stack *sites, uint32_t code_id, uint32_t other_id)
{
    const struct vt_trace *trace = sites->trace;
    if (code_id >= trace->code_count || other_id >= trace->code_count)
        return false;
    const struct vt_trace_code *code = &trace->codes[code_id], *other = &trace->codes[other_id];
    if (code_id == other_id)
        return true;
    if (!code->file || !other->file || strcmp(code->file, other->file) != 0)
        return false;
    size_t bytes = strcspn(code->name, ".");
    if (!code->name[bytes])
        return vt_trace_code_is_library(trace, code_id);
    return strncmp(code->name, other->name, bytes + 1) == 0;
}

/* A function that an optimizer's step calls is a closure if, at some time, it runs a forward or a backward.
 */
static void mark_passes(struct vt_traits_by_stack *sites, const struct vt_trace_stack *stack)
{
    struct step_frames found = find_step(sites, stack);
    if (found.step == stack->python_count)
        return;
    for (uint32_t i = found.owner; i-- > 0;) {
        if (!frame_is(sites, stack, i, VT_CODE_PASS))
            continue;
        for (uint32_t k = i + 1; k < found.owner; k++)
            if (!frame_is(sites, stack, k, VT_CODE_WRAPPER) &&
                stack->python[k].code_id < sites->trace->code_count)
                sites->code_classes[stack->python[k].code_id] |= 1u << VT_CODE_RUNS_PASS;
        return;
    }
}

const struct vt_python_frame *vt_optimizer_frame(const struct vt_traits_by_stack *sites, uint32_t stack_id,
                                                 bool *closure)
{
    const struct vt_trace_stack *stack = &sites->trace->stacks[stack_id];
    struct step_frames found = find_step(sites, stack);
    *closure = false;
    if (found.step == stack->python_count)
        return NULL;
    uint32_t owner_id = stack->python[found.owner].code_id, own = found.owner;
    for (uint32_t i = found.owner; i-- > 0 && !*closure;) {
        *closure = frame_is(sites, stack, i, VT_CODE_PASS) ||
                   (frame_is(sites, stack, i, VT_CODE_RUNS_PASS) &&
                    !of_same_class(sites, stack->python[i].code_id, owner_id));
        if (!*closure && !frame_is(sites, stack, i, VT_CODE_WRAPPER))
            own = i;
    }
    return &stack->python[own];
}

/* What the closure does that an optimizer's step calls is not the optimizer's work. */
static void find_closures(struct vt_traits_by_stack *sites)
{
    for (uint32_t id = 1; id < sites->trace->stack_count; id++)
        if (sites->items[id].traits & VT_TRAIT(OPTIMIZER))
            mark_passes(sites, &sites->trace->stacks[id]);
    for (uint32_t id = 1; id < sites->trace->stack_count; id++) {
        uint64_t *traits = &sites->items[id].traits;
        bool closure;
        if (!(*traits & VT_TRAIT(OPTIMIZER)))
            continue;
        vt_optimizer_frame(sites, id, &closure);
        if (closure)
            *traits = (*traits & ~VT_TRAIT(OPTIMIZER)) | VT_TRAIT(CLOSURE);
    }
}

/* Marks the functions of a class. */
static void mark_class(struct vt_traits_by_stack *sites, uint32_t code_id, enum vt_code_class code_class,
                       bool set)
{
    for (uint32_t other = 0; other < sites->trace->code_count; other++)
        if (of_same_class(sites, other, code_id))
            sites->code_classes[other] =
                (sites->code_classes[other] & ~(1u << code_class)) | (uint32_t)set << code_class;
}

/* The script's own functions called `step` that call an optimizer's. */
static void mark_wrappers(struct vt_traits_by_stack *sites, const struct vt_trace_stack *stack)
{
    for (uint32_t i = find_step(sites, stack).step + 1; i < stack->python_count; i++)
        if (frame_is(sites, stack, i, VT_CODE_STEP) && !frame_is(sites, stack, i, VT_CODE_OPTIMIZER_STEP) &&
            !frame_is(sites, stack, i, VT_CODE_WRAPS_OPTIMIZER) &&
            !vt_trace_code_is_library(sites->trace, stack->python[i].code_id))
            mark_class(sites, stack->python[i].code_id, VT_CODE_WRAPS_OPTIMIZER, true);
}

/* What runs forward or backward is a trainer, and wraps no optimizer. */
static void unmark_trainers(struct vt_traits_by_stack *sites, const struct vt_trace_stack *stack)
{
    bool pass = false;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        pass |= frame_is(sites, stack, i, VT_CODE_PASS);
        if (pass && frame_is(sites, stack, i, VT_CODE_WRAPS_OPTIMIZER))
            mark_class(sites, stack->python[i].code_id, VT_CODE_WRAPS_OPTIMIZER, false);
    }
}

static void find_wrappers(struct vt_traits_by_stack *sites)
{
    for (uint32_t id = 1; id < sites->trace->stack_count; id++)
        if (sites->items[id].traits & VT_TRAIT(OPTIMIZER))
            mark_wrappers(sites, &sites->trace->stacks[id]);
    for (uint32_t id = 1; id < sites->trace->stack_count; id++)
        unmark_trainers(sites, &sites->trace->stacks[id]);
    for (uint32_t id = 1; id < sites->trace->stack_count; id++)
        for (uint32_t i = 0; i < sites->trace->stacks[id].python_count; i++)
            if (frame_is(sites, &sites->trace->stacks[id], i, VT_CODE_WRAPS_OPTIMIZER))
                sites->items[id].traits |= VT_TRAIT(WRAPS_OPTIMIZER);
}

/* Made in constructors, all of them of the script's own classes that are no modules. */
static bool is_plain_init(const struct vt_traits_by_stack *sites, const struct vt_trace_stack *stack)
{
    bool plain = false;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        bool init = frame_is(sites, stack, i, VT_CODE_INIT);
        if ((init && frame_is(sites, stack, i, VT_CODE_OF_MODULE)) ||
            ((init || !plain) && vt_trace_code_is_library(sites->trace, stack->python[i].code_id)))
            return false;
        plain |= init && strchr(sites->trace->codes[stack->python[i].code_id].name, '.');
    }
    return plain;
}

static void find_plain_inits(struct vt_traits_by_stack *sites)
{
    for (uint32_t id = 0; id < sites->trace->code_count; id++)
        if (vt_traits_by_stack_code_is(sites, id, VT_CODE_FORWARD) &&
            !vt_traits_by_stack_code_is(sites, id, VT_CODE_OF_MODULE))
            mark_class(sites, id, VT_CODE_OF_MODULE, true);
    for (uint32_t id = 1; id < sites->trace->stack_count; id++)
        if (is_plain_init(sites, &sites->trace->stacks[id]))
            sites->items[id].traits |= VT_TRAIT(PLAIN_INIT);
}

/* What a module makes that a cache's code calls (to find out how large a cache can be, to warm up) is no
 * cache. */
static void find_cache_makers(struct vt_traits_by_stack *sites)
{
    for (uint32_t id = 1; id < sites->trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &sites->trace->stacks[id];
        bool made = false, called = false;
        for (uint32_t i = 0; i < stack->python_count && !made && !called; i++) {
            made = frame_is(sites, stack, i, VT_CODE_CACHE_MAKER);
            called = stack->python[i].self_address != 0;
        }
        if (made)
            sites->items[id].traits |= VT_TRAIT(CACHE_MAKER);
    }
}

/* The innermost module calls a function of the script's that is not its forward. */
static bool is_in_hook(const struct vt_traits_by_stack *sites, const struct vt_trace_stack *stack)
{
    uint32_t caller = 0, call;
    while (caller < stack->python_count && !frame_is(sites, stack, caller, VT_CODE_HOOK_CALLER))
        caller++;
    for (call = caller; call < stack->python_count && frame_is(sites, stack, call, VT_CODE_HOOK_CALLER);)
        if (frame_is(sites, stack, call++, VT_CODE_PASS))
            return caller > 0 && !frame_is(sites, stack, caller - 1, VT_CODE_FORWARD) &&
                   !vt_trace_code_is_library(sites->trace, stack->python[caller - 1].code_id);
    return false;
}

static void find_hooks(struct vt_traits_by_stack *sites)
{
    for (uint32_t id = 1; id < sites->trace->stack_count; id++)
        if (is_in_hook(sites, &sites->trace->stacks[id]))
            sites->items[id].traits |= VT_TRAIT(HOOK);
}

/* ---- All ---- */

struct vt_matcher *vt_traits_by_stack_make(const struct vt_trace *trace, const struct vt_rules *rules,
                                           struct vt_traits_by_stack *sites)
{
    sites->trace = trace;
    sites->model_function = UINT32_MAX;
    sites->items = vt_allocate_zeros(trace->stack_count, sizeof *sites->items);
    sites->code_classes = vt_allocate_zeros(trace->code_count + 1, sizeof *sites->code_classes);
    find_operators(sites);
    struct vt_matcher *matcher = vt_matcher_make(rules, sites);
    find_buffers(sites);
    find_closures(sites);
    find_wrappers(sites);
    find_plain_inits(sites);
    find_cache_makers(sites);
    find_hooks(sites);
    return matcher;
}

void vt_traits_by_stack_free(struct vt_traits_by_stack *sites)
{
    free(sites->items);
    free(sites->code_classes);
    vt_arena_free(&sites->arena);
}

bool vt_traits_by_stack_code_is(const struct vt_traits_by_stack *sites, uint32_t code_id,
                                enum vt_code_class code_class)
{
    return code_id < sites->trace->code_count && sites->code_classes[code_id] >> code_class & 1;
}

uint64_t vt_module_code(const struct vt_trace *trace, uint32_t stack_id)
{
    const struct vt_trace_stack *stack = &trace->stacks[stack_id];
    uint64_t key = 0, result = 0;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        key = vt_mix(key, (uint64_t)frame->code_id << 32 | (uint32_t)frame->instruction_offset);
        key = vt_mix(key, frame->self_address);
        if (frame->self_address)
            result = key | 1;
    }
    return result;
}

uint64_t vt_call_code(const struct vt_traits_by_stack *sites, uint32_t stack_id, uint64_t *outer)
{
    const struct vt_trace_stack *stack = &sites->trace->stacks[stack_id];
    uint64_t key = 0, result = 0;
    *outer = 0;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        uint64_t place = (uint64_t)frame->code_id << 32 | (uint32_t)frame->instruction_offset;
        bool calls = frame->self_address || frame->code_id == sites->model_function;
        key = vt_mix(vt_mix(key, place), frame->self_address);
        if (calls)
            result = key | 1;
        *outer = !calls ? vt_mix(*outer, place) : frame->self_address ? frame->self_address : frame->code_id;
    }
    return result;
}
