/* Programs that run a model without any nn.Module: the Python function that computes it. What it allocates is
 * then of a module's forward. */
#include "attribute/functions.h"

#include "attribute/event_phases.h"

#include <stdlib.h>

#include "base/allocate.h"

#define LEAST_CALLS 3u    /* that show that a function is called again and again */
#define LEAST_PRODUCTS 4u /* in each call: a search in an index or an iteration of a solver has fewer */
#define MOST_OF(all) ((all) / 10 * 9)

struct search {
    struct vt_finder *finder;
    uint32_t *products;  /* by stack: allocations by products of matrices, attention, convolutions */
    uint32_t *last;      /* by stack: the event of its last allocation */
    uint32_t *of_code;   /* by code: products beneath it */
    uint32_t first, all; /* the first product's event; products */
};

static bool is_free_of_modules(const struct vt_finder *finder)
{
    const uint64_t known =
        VT_TRAIT(MODULE) | VT_TRAIT(BACKWARD) | VT_TRAIT(BACKWARD_CALL) | VT_TRAIT(OPTIMIZER);
    for (uint32_t id = 1; id < finder->trace->stack_count; id++)
        if (vt_finder_traits(finder, id) & known)
            return false;
    return true;
}

static bool is_beneath(const struct vt_trace_stack *stack, uint32_t code, uint32_t from)
{
    for (uint32_t i = from; i < stack->python_count; i++)
        if (stack->python[i].code_id == code)
            return true;
    return false;
}

static void count_products(struct search *search)
{
    const struct vt_trace *trace = search->finder->trace;
    const struct vt_replay *replay = search->finder->replay;
    search->first = VT_NEVER;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (search->finder->holds[block->alloc_event] != HOLDS_MADE)
            continue;
        search->last[block->stack_id] = block->alloc_event;
        if (!(vt_finder_traits(search->finder, block->stack_id) & VT_TRAIT(PRODUCT)))
            continue;
        search->first = search->first == VT_NEVER ? block->alloc_event : search->first;
        search->products[block->stack_id]++;
        search->all++;
    }
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        const struct vt_trace_stack *stack = &trace->stacks[id];
        for (uint32_t i = 0; i < stack->python_count && search->products[id]; i++)
            if (stack->python[i].code_id < trace->code_count &&
                !is_beneath(stack, stack->python[i].code_id, i + 1)) /* once, if it calls itself */
                search->of_code[stack->python[i].code_id] += search->products[id];
    }
}

/* The innermost function beneath which most products are made. */
static uint32_t common_function(const struct search *search)
{
    const struct vt_trace *trace = search->finder->trace;
    uint32_t most = 0;
    for (uint32_t id = 1; id < trace->stack_count; id++)
        most = search->products[id] > search->products[most] ? id : most;
    const struct vt_trace_stack *stack = &trace->stacks[most];
    for (uint32_t i = 0; i < stack->python_count; i++)
        if (stack->python[i].code_id < trace->code_count &&
            search->of_code[stack->python[i].code_id] >= MOST_OF(search->all))
            return stack->python[i].code_id;
    return UINT32_MAX;
}

/* How often it is called: as often as the product that it makes once in a call; 0 if that is no model. */
static uint32_t count_calls(const struct search *search, uint32_t code)
{
    const struct vt_trace *trace = search->finder->trace;
    struct vt_index counts = {0}; /* by code within the function, on whatever thread */
    uint32_t least = UINT32_MAX, all = 0;
    for (int round = 0; round < 2; round++)
        for (uint32_t id = 1; id < trace->stack_count; id++) {
            if (search->products[id] == 0 || !is_beneath(&trace->stacks[id], code, 0))
                continue;
            uint64_t outer, key = vt_call_code(search->finder->sites, id, &outer);
            uint32_t known = vt_index_get(&counts, key), count = known == VT_INDEX_NONE ? 0 : known;
            if (round == 0) {
                vt_index_put(&counts, key, count + search->products[id]);
            } else if (count >= LEAST_CALLS) {
                least = count < least ? count : least;
                all += search->products[id];
            }
        }
    vt_index_free(&counts);
    return all / LEAST_PRODUCTS >= least ? least : 0;
}

/* Others allocate between its calls, so that all it does is run the model. Else it is the program's own loop,
 * and what it makes out of nothing are weights, inputs and empty caches. */
static bool is_called(const struct search *search, uint32_t code)
{
    const struct vt_trace *trace = search->finder->trace;
    for (uint32_t id = 1; id < trace->stack_count; id++)
        if (search->last[id] > search->first && !is_beneath(&trace->stacks[id], code, 0))
            return true;
    return false;
}

static void mark_stacks(const struct search *search, uint32_t code)
{
    const struct vt_trace *trace = search->finder->trace;
    const uint64_t out_of_nothing = VT_TRAIT(SOURCE) | VT_TRAIT(BLANK);
    bool called = is_called(search, code);
    for (uint32_t id = 1; id < trace->stack_count; id++) {
        bool computes =
            search->last[id] >= search->first && !(vt_finder_traits(search->finder, id) & out_of_nothing);
        search->finder->sites->items[id].traits |= VT_TRAIT(FUNCTION_MODEL);
        if (is_beneath(&trace->stacks[id], code, 0) && (called || computes))
            search->finder->sites->items[id].traits |= VT_TRAIT(MODULE);
    }
}

void vt_functions_find(struct vt_finder *finder)
{
    struct search search = {.finder = finder};
    size_t stacks = finder->trace->stack_count + 1;
    if (!is_free_of_modules(finder))
        return;
    search.products = vt_allocate_zeros(stacks, sizeof *search.products);
    search.last = vt_allocate_zeros(stacks, sizeof *search.last);
    search.of_code = vt_allocate_zeros(finder->trace->code_count + 1, sizeof *search.of_code);
    count_products(&search);
    uint32_t code = search.all > 0 ? common_function(&search) : UINT32_MAX;
    finder->sites->model_function = code; /* count_calls needs it */
    if (code != UINT32_MAX && count_calls(&search, code) > 0)
        mark_stacks(&search, code);
    else
        finder->sites->model_function = UINT32_MAX;
    free(search.products);
    free(search.last);
    free(search.of_code);
}
