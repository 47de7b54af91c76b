/* The operators of stacks, and the traits that no pattern can find: they depend on the place of a call in a
 * function, or on which frame is inside which. */
#include "attribute/match.h"
#include "attribute/stack_traits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribute/rules.h"
#include "base/allocate.h"
#include "base/index.h"

#define OPERATOR_BYTES 150 /* a longer name is not an operator's */
#define OPERATOR_NAME_BYTES (OPERATOR_BYTES + 42)

/* ---- Operators ---- */

static const struct {
    const char *begin, *end, *shown;
} forms[] = {
#define VT_OPERATOR(begin, end, shown) {begin, end, shown},
#include "trace/frameworks.def"
};

/* The name without namespaces, which C++ classes of other libraries have. */
static const char *last_part(const char *begin, const char *end)
{
    while (end > begin && end[-1] != ':')
        end--;
    return end;
}

/* "at::_ops::addmm::call" → "aten::addmm", "torch::autograd::generated::AddmmBackward0::apply" →
 * "AddmmBackward0"; other functions leave `name` as it is. */
static void name_operator(const struct vt_trace_symbol *symbol, char name[OPERATOR_NAME_BYTES])
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        /* a short name has no template arguments */
        const char *function = strchr(forms[i].begin, '<') ? symbol->name : symbol->short_name;
        size_t begin_bytes = strlen(forms[i].begin);
        if (strncmp(function, forms[i].begin, begin_bytes) != 0)
            continue;
        if (!forms[i].shown)
            return;
        const char *begin = function + begin_bytes, *end = strstr(begin, forms[i].end);
        if (!end || end - begin > OPERATOR_BYTES)
            continue;
        begin = last_part(begin, end);
        snprintf(name, OPERATOR_NAME_BYTES, "%s%.*s", forms[i].shown, (int)(end - begin), begin);
        return;
    }
}

/* The operator of a function, by its address; NULL = none. *known: address → operators. */
static const char *find_operator(struct vt_traits_by_stack *traits, struct vt_index *known, uint64_t address)
{
    uint32_t number = vt_index_get(known, address);
    if (number == VT_INDEX_NONE) {
        char name[OPERATOR_NAME_BYTES] = "";
        const struct vt_trace_symbol *symbol = vt_trace_symbol(traits->trace, address);
        if (symbol)
            name_operator(symbol, name);
        number = vt_strings_find(&traits->operators, name, NULL);
        vt_index_put(known, address, number);
    }
    const char *name = traits->operators.items[number];
    return name[0] ? name : NULL;
}

/* Finds the outermost operator of each stack. Native frames end at the interpreter, so when a checkpoint runs
 * forward again this is the forward operator. */
static void find_operators(struct vt_traits_by_stack *traits)
{
    const struct vt_trace *trace = traits->trace;
    struct vt_index known = {0};
    for (size_t id = 0; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        const char **name = &traits->items[id].operator_name;
        for (uint32_t i = stack->native_count; i-- > 0 && !*name;)
            *name = find_operator(traits, &known, stack->native[i]);
    }
    vt_index_free(&known);
}

/* ---- Traits ---- */

static bool frame_is(const struct vt_traits_by_stack *traits, const struct vt_trace_stack *stack, uint32_t at,
                     enum vt_code_class code_class)
{
    return vt_traits_by_stack_code_is(traits, stack->python[at].code_id, code_class);
}

/* The innermost Python frame of a class, python_count = none. */
static uint32_t find_frame(const struct vt_traits_by_stack *traits, const struct vt_trace_stack *stack,
                           enum vt_code_class code_class)
{
    uint32_t at = 0;
    while (at < stack->python_count && !frame_is(traits, stack, at, code_class))
        at++;
    return at;
}

/* Module._apply converts first parameters, then buffers, at two places in its code. The offset in its
 * innermost call tells which; if all stacks have one offset, nothing is known. */
static void find_buffers(struct vt_traits_by_stack *traits)
{
    int32_t first = INT32_MAX, last = -1;
    uint32_t code_id = 0;
    for (int round = 0; round < 2; round++) {
        for (uint32_t id = 1; id < traits->trace->stack_count; id++) {
            const struct vt_trace_stack *stack = &traits->trace->stacks[id];
            const uint32_t at = traits->items[id].traits & VT_TRAIT(MODULE_APPLY)
                                    ? find_frame(traits, stack, VT_CODE_APPLY)
                                    : stack->python_count;
            if (at == stack->python_count)
                continue;
            int32_t offset = stack->python[at].instruction_offset;
            if (round == 0) {
                first = offset < first ? offset : first;
                last = offset > last ? offset : last;
                code_id = stack->python[at].code_id;
            } else if (offset == last && last > first && stack->python[at].code_id == code_id) {
                traits->items[id].traits |= VT_TRAIT(BUFFER);
            }
        }
    }
}

/* The frames of an optimizer's step in a stack, as indices of its Python frames (0 = innermost). */
struct step_frames {
    uint32_t step;  /* where the innermost step begins; python_count = none */
    uint32_t owner; /* the first function in it that is the optimizer's own */
};

static struct step_frames find_step(const struct vt_traits_by_stack *traits,
                                    const struct vt_trace_stack *stack)
{
    const uint32_t step = find_frame(traits, stack, VT_CODE_OPTIMIZER_STEP);
    struct step_frames found = {step, step};
    while (found.owner > 0 && step < stack->python_count &&
           frame_is(traits, stack, found.owner, VT_CODE_WRAPPER))
        found.owner--;
    return found;
}

/* Whether both are methods of one class, or functions within such: "LBFGS.step",
 * "LBFGS.step.<locals>.obj_func". Before Python 3.11 names have no class: then a library's functions in one
 * file are of one class. */
static bool of_same_class(const struct vt_traits_by_stack *traits, uint32_t code_id, uint32_t other_id)
{
    const struct vt_trace *trace = traits->trace;
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

/* Marks functions called by an optimizer's step that, in any stack, run a forward or a backward: these are
 * closures. */
static void mark_passes(struct vt_traits_by_stack *traits, const struct vt_trace_stack *stack)
{
    struct step_frames found = find_step(traits, stack);
    if (found.step == stack->python_count)
        return;
    for (uint32_t i = found.owner; i-- > 0;) {
        if (!frame_is(traits, stack, i, VT_CODE_PASS))
            continue;
        for (uint32_t k = i + 1; k < found.owner; k++)
            if (!frame_is(traits, stack, k, VT_CODE_WRAPPER) &&
                stack->python[k].code_id < traits->trace->code_count)
                traits->code_classes[stack->python[k].code_id] |= 1u << VT_CODE_RUNS_PASS;
        return;
    }
}

const struct vt_python_frame *vt_optimizer_frame(const struct vt_traits_by_stack *traits, uint32_t stack_id,
                                                 bool *closure)
{
    const struct vt_trace_stack *stack = &traits->trace->stacks[stack_id];
    struct step_frames found = find_step(traits, stack);
    *closure = false;
    if (found.step == stack->python_count)
        return NULL;
    uint32_t owner_id = stack->python[found.owner].code_id, own = found.owner;
    for (uint32_t i = found.owner; i-- > 0 && !*closure;) {
        *closure = frame_is(traits, stack, i, VT_CODE_PASS) ||
                   (frame_is(traits, stack, i, VT_CODE_RUNS_PASS) &&
                    !of_same_class(traits, stack->python[i].code_id, owner_id));
        if (!*closure && !frame_is(traits, stack, i, VT_CODE_WRAPPER))
            own = i;
    }
    return &stack->python[own];
}

/* What an optimizer's step does in a closure that it calls is not the optimizer's work. */
static void find_closures(struct vt_traits_by_stack *traits)
{
    for (uint32_t id = 1; id < traits->trace->stack_count; id++)
        if (traits->items[id].traits & VT_TRAIT(OPTIMIZER))
            mark_passes(traits, &traits->trace->stacks[id]);
    for (uint32_t id = 1; id < traits->trace->stack_count; id++) {
        uint64_t *bits = &traits->items[id].traits;
        bool closure;
        if (!(*bits & VT_TRAIT(OPTIMIZER)))
            continue;
        vt_optimizer_frame(traits, id, &closure);
        if (closure)
            *bits = (*bits & ~VT_TRAIT(OPTIMIZER)) | VT_TRAIT(CLOSURE);
    }
}

/* Whether a cache's code makes it itself. What others make that such code calls (to warm up, to measure how
 * large a cache can be) is no cache. */
static bool is_in_cache_maker(const struct vt_traits_by_stack *traits, const struct vt_trace_stack *stack)
{
    uint32_t at = 0;

    while (at < stack->python_count && frame_is(traits, stack, at, VT_CODE_WRAPPER))
        at++;
    return at < stack->python_count && frame_is(traits, stack, at, VT_CODE_CACHE_MAKER);
}

/* Whether the innermost module calls a function of the script's other than its forward. */
static bool is_in_hook(const struct vt_traits_by_stack *traits, const struct vt_trace_stack *stack)
{
    const uint32_t caller = find_frame(traits, stack, VT_CODE_HOOK_CALLER);
    for (uint32_t call = caller;
         call < stack->python_count && frame_is(traits, stack, call, VT_CODE_HOOK_CALLER);)
        if (frame_is(traits, stack, call++, VT_CODE_PASS))
            return caller > 0 && !frame_is(traits, stack, caller - 1, VT_CODE_FORWARD) &&
                   !vt_trace_code_is_library(traits->trace, stack->python[caller - 1].code_id);
    return false;
}

/* ---- All ---- */

static const struct {
    uint64_t trait;
    bool (*is_shown)(const struct vt_traits_by_stack *traits, const struct vt_trace_stack *stack);
} shown_traits[] = {
    {VT_TRAIT(CACHE_MAKER), is_in_cache_maker},
    {VT_TRAIT(HOOK), is_in_hook},
};

static void find_shown_traits(struct vt_traits_by_stack *traits)
{
    for (uint32_t id = 1; id < traits->trace->stack_count; id++)
        for (size_t i = 0; i < sizeof shown_traits / sizeof *shown_traits; i++)
            if (shown_traits[i].is_shown(traits, &traits->trace->stacks[id]))
                traits->items[id].traits |= shown_traits[i].trait;
}

struct vt_matcher *vt_traits_by_stack_make(const struct vt_trace *trace, const struct vt_rules *rules,
                                           struct vt_traits_by_stack *traits)
{
    traits->trace = trace;
    traits->model_function = UINT32_MAX;
    traits->items = vt_allocate_zeros(trace->stack_count, sizeof *traits->items);
    traits->code_classes = vt_allocate_zeros(trace->code_count + 1, sizeof *traits->code_classes);
    find_operators(traits);
    struct vt_matcher *matcher = vt_matcher_make(rules, traits);
    find_buffers(traits);
    find_closures(traits);
    find_shown_traits(traits);
    return matcher;
}

void vt_traits_by_stack_free(struct vt_traits_by_stack *traits)
{
    free(traits->items);
    free(traits->code_classes);
    vt_strings_free(&traits->operators);
}

bool vt_traits_by_stack_code_is(const struct vt_traits_by_stack *traits, uint32_t code_id,
                                enum vt_code_class code_class)
{
    return code_id < traits->trace->code_count && traits->code_classes[code_id] >> code_class & 1;
}

/* vt_call_code of a stack, with the function that computes a model, UINT32_MAX = none. */
static uint64_t hash_call(const struct vt_trace_stack *stack, uint32_t model_function, uint64_t *outer)
{
    uint64_t key = 0, result = 0;
    *outer = 0;
    for (uint32_t i = 0; i < stack->python_count; i++) {
        const struct vt_python_frame *frame = &stack->python[i];
        uint64_t place = (uint64_t)frame->code_id << 32 | (uint32_t)frame->instruction_offset;
        bool calls = frame->self_address || frame->code_id == model_function;
        key = vt_mix(vt_mix(key, place), frame->self_address);
        if (calls)
            result = key | 1;
        *outer = !calls ? vt_mix(*outer, place) : frame->self_address ? frame->self_address : frame->code_id;
    }
    return result;
}

uint64_t vt_module_code(const struct vt_trace *trace, uint32_t stack_id)
{
    uint64_t outer;
    return hash_call(&trace->stacks[stack_id], UINT32_MAX, &outer);
}

uint64_t vt_call_code(const struct vt_traits_by_stack *traits, uint32_t stack_id, uint64_t *outer)
{
    return hash_call(&traits->trace->stacks[stack_id], traits->model_function, outer);
}
