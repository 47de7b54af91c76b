/* The Python name that holds a leak: of those that a census saw, the one that holds most of its bytes,
 * directly or by the autograd graph of its tensor. */
#include "findings/leaks/holders.h"

#include "base/allocate.h"
#include "findings/leaks/graphs.h"
#include "trace/frameworks.h"

#include <stdlib.h>
#include <string.h>

struct candidate {
    const struct vt_inspection_holder *holder; /* the first seen of that name */
    uint32_t inspection;
    bool whole;   /* the search went to its end */
    bool at_work; /* the code that makes it ran again after this inspection */
    struct vt_leak_hold direct, by_graph;
    uint32_t stack_id; /* of the latest that it holds itself */
};

/* What one holder of an inspection holds of one leak: a block, or blocks by its graph. */
struct share {
    uint32_t leak, order, stack_id; /* order: in which they were found */
    bool direct;
    const struct vt_inspection_holder *holder;
    struct vt_leak_hold hold;
};

struct search {
    struct vt_leak_finder *finder;
    struct vt_leak_graphs *graphs;
    uint32_t *held; /* indices of attribution->held, by inspection, else in order */
    size_t held_count;
    struct share *shares; /* of one inspection */
    size_t share_count, share_capacity;
    struct candidate *candidates; /* of one leak in one inspection */
    size_t count, capacity;
    struct vt_index names;  /* of one inspection: leak and name → candidate */
    struct candidate *best; /* by leak */
    uint32_t *last_made;    /* by leak: the last event of the code that makes it */
};

static uint64_t key_of(uint32_t leak, const char *name)
{
    return vt_hash_bytes(name, vt_holder_bytes(name), leak);
}

static int compare_shares(const void *a, const void *b)
{
    const struct share *left = a, *right = b;
    return 2 * vt_order(left->leak, right->leak) + vt_order(left->order, right->order);
}

static void add_share(struct search *search, struct share share)
{
    share.order = (uint32_t)search->share_count;
    VT_APPEND(search->shares, search->share_count, search->share_capacity, share);
}

/* The tensors themselves. `first` is where those of the inspection begin in `held`; returns where they end.
 */
static void add_direct(struct search *search, uint32_t inspection, size_t *first)
{
    const struct vt_leak_finder *finder = search->finder;

    for (; *first < search->held_count; ++*first) {
        const struct vt_held *held = &finder->attribution->held[search->held[*first]];
        if (held->inspection > inspection)
            break;
        uint32_t leak = vt_leak_of(finder, held->allocation);
        uint32_t step = finder->attribution->labels[held->allocation].step;
        if (held->inspection < inspection || leak == VT_NO_CLASS ||
            !vt_leak_is_held(finder, leak, held->allocation))
            continue;
        add_share(search,
                  (struct share){.leak = leak,
                                 .direct = true,
                                 .holder = held->holder,
                                 .stack_id = finder->replay->allocations[held->allocation].stack_id,
                                 .hold = {finder->replay->allocations[held->allocation].bytes, step, step}});
    }
}

/* Blocks alive at the inspection whose nodes the holder's tensor keeps. */
static void add_graph(struct search *search, const struct vt_inspection_holder *holder)
{
    size_t count;
    const struct vt_leak_graph_part *parts = vt_leak_graphs_find(search->graphs, holder->nodes, &count);
    for (size_t i = 0; i < count; i++)
        add_share(search, (struct share){.leak = parts[i].leak, .holder = holder, .hold = parts[i].hold});
}

static struct candidate *candidate_of(struct search *search, uint32_t leak,
                                      const struct vt_inspection_holder *holder)
{
    uint64_t key = key_of(leak, holder->holder);
    uint32_t at = vt_index_get(&search->names, key);
    if (at == VT_INDEX_NONE) {
        at = (uint32_t)search->count;
        vt_index_put(&search->names, key, at);
        VT_APPEND(search->candidates, search->count, search->capacity, (struct candidate){.holder = holder});
    }
    return &search->candidates[at];
}

static const struct vt_leak_hold *best_of(const struct candidate *candidate)
{
    return candidate->direct.bytes > candidate->by_graph.bytes ? &candidate->direct : &candidate->by_graph;
}

/* A variable that holds only the last step's memory, and will hold the next step's, is not the cause. No
 * variable holds a cycle: one step's is proof. */
static bool lasts(const struct candidate *candidate)
{
    const struct vt_leak_hold *hold = best_of(candidate);
    return hold->first_step != hold->last_step || strcmp(candidate->holder->kind, "cycle") == 0;
}

static bool is_same_name(const struct candidate *a, const struct candidate *b)
{
    size_t bytes = vt_holder_bytes(a->holder->holder);
    return bytes == vt_holder_bytes(b->holder->holder) &&
           memcmp(a->holder->holder, b->holder->holder, bytes) == 0;
}

/* What an inspection saw while the program was at work outranks what another name held after it. If two hold
 * about the same graph, the one whose own tensor is larger is better. */
static bool is_better(const struct candidate *candidate, const struct candidate *best)
{
    uint64_t bytes = best_of(candidate)->bytes, most = best ? best_of(best)->bytes : 0;
    if (!best || lasts(candidate) != lasts(best))
        return !best || lasts(candidate);
    if (candidate->whole != best->whole)
        return candidate->whole;
    if (candidate->at_work != best->at_work && !is_same_name(candidate, best))
        return candidate->at_work;
    if (bytes > most + most / 10 || most > bytes + bytes / 10)
        return bytes > most;
    return candidate->direct.bytes >= best->direct.bytes;
}

/* The best of one leak among the shares of an inspection, [first, end). */
static void judge_leak(struct search *search, uint32_t inspection, size_t first, size_t end)
{
    uint32_t leak = search->shares[first].leak;
    struct candidate *best = &search->best[leak];
    size_t own = search->count;
    for (size_t i = first; i < end; i++) {
        const struct share *share = &search->shares[i];
        struct candidate *candidate = candidate_of(search, leak, share->holder);
        candidate->inspection = inspection;
        candidate->whole = search->finder->trace->inspections[inspection].census_ended;
        candidate->at_work =
            search->finder->trace->inspections[inspection].event_index < search->last_made[leak];
        candidate->stack_id = share->direct ? share->stack_id : candidate->stack_id;
        vt_leak_hold_add(share->direct ? &candidate->direct : &candidate->by_graph, &share->hold);
    }
    for (size_t i = own; i < search->count; i++)
        if (is_better(&search->candidates[i], best->holder ? best : NULL))
            *best = search->candidates[i];
}

static void judge_inspection(struct search *search, uint32_t inspection, size_t *first_held)
{
    const struct vt_inspection *seen = &search->finder->trace->inspections[inspection];
    search->share_count = search->count = 0;
    vt_index_free(&search->names);
    add_direct(search, inspection, first_held);
    vt_leak_graphs_at(search->graphs, seen->event_index);
    for (size_t i = 0; i < seen->holder_count; i++)
        add_graph(search, &seen->holders[i]);
    if (search->share_count > 1)
        qsort(search->shares, search->share_count, sizeof *search->shares, compare_shares);
    for (size_t i = 0, end; i < search->share_count; i = end) {
        for (end = i + 1; end < search->share_count && search->shares[end].leak == search->shares[i].leak;
             end++)
            ;
        judge_leak(search, inspection, i, end);
    }
}

/* Refines the verdict of the stacks by what the inspection saw. */
static void refine(struct vt_leak *leak)
{
    static const struct {
        const char *kind;
        enum vt_leak_verdict from, verdict;
    } known[] = {{"traceback", VT_LEAK_TENSOR, VT_LEAK_EXCEPTION},
                 {"traceback", VT_LEAK_GRAPH, VT_LEAK_EXCEPTION},
                 {"cell", VT_LEAK_TENSOR, VT_LEAK_HOOK},
                 {"cycle", VT_LEAK_TENSOR, VT_LEAK_CYCLE}};
    if (leak->verdict == VT_LEAK_CREATE_GRAPH) /* something else keeps them */
        vt_leak_set_verdict(leak, VT_LEAK_GRAPH);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (leak->verdict == known[i].from && strcmp(leak->holder.kind, known[i].kind) == 0) {
            vt_leak_set_verdict(leak, known[i].verdict);
            return;
        }
}

/* After the work only a cycle may be left of what kept it before. */
static bool is_cycle_afterwards(const struct vt_leak *leak, const struct candidate *best)
{
    return !best->at_work && leak->verdict != VT_LEAK_CYCLE && strcmp(best->holder->kind, "cycle") == 0;
}

/* By leak, what was there at the inspection that is its best if that one's search was cut off: something
 * small may hold a part of it. Else 0. */
static uint64_t *weigh_cut_off(const struct search *search)
{
    const struct vt_leak_finder *finder = search->finder;
    uint64_t *there = vt_allocate_zeros(finder->leaks->count + 1, sizeof *there);
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        uint32_t leak = vt_leak_of(finder, i);
        const struct candidate *best = leak == VT_NO_CLASS ? NULL : &search->best[leak];
        if (best && best->holder && !best->whole && vt_leak_is_held(finder, leak, i) &&
            vt_alive_at(&finder->replay->allocations[i],
                        finder->trace->inspections[best->inspection].event_index))
            there[leak] += finder->replay->allocations[i].bytes;
    }
    return there;
}

static void find_last_made(struct search *search)
{
    const struct vt_leak_finder *finder = search->finder;
    search->last_made = vt_allocate_zeros(finder->leaks->count + 1, sizeof *search->last_made);
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        uint32_t leak = vt_leak_of(finder, i);
        if (leak != VT_NO_CLASS)
            search->last_made[leak] = finder->replay->allocations[i].alloc_event;
    }
}

static int compare_held(const void *a, const void *b, void *held)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    uint32_t left_inspection = ((const struct vt_held *)held)[left].inspection;
    uint32_t right_inspection = ((const struct vt_held *)held)[right].inspection;
    return 2 * vt_order(left_inspection, right_inspection) + vt_order(left, right);
}

static struct vt_leak_holder holder_of(const struct vt_inspection_holder *seen)
{
    return (struct vt_leak_holder){.name = seen->holder,
                                   .kind = seen->kind,
                                   .way = seen->way,
                                   .dtype = seen->dtype,
                                   .shape = seen->shape,
                                   .node = strcmp(seen->node, VT_LEAF_NODE) == 0 ? "" : seen->node,
                                   .bytes = seen->bytes,
                                   .storage_bytes = seen->storage_bytes};
}

static void find_holders(struct search *search)
{
    const struct vt_leak_finder *finder = search->finder;
    size_t first_held = 0;
    search->held_count = finder->attribution->held_count;
    search->held = vt_allocate_zeros(search->held_count + 1, sizeof *search->held);
    search->best = vt_allocate_zeros(finder->leaks->count + 1, sizeof *search->best);
    search->graphs = vt_leak_graphs_make(finder);
    find_last_made(search);
    for (uint32_t i = 0; i < search->held_count; i++)
        search->held[i] = i;
    if (search->held_count > 1)
        qsort_r(search->held, search->held_count, sizeof *search->held, compare_held,
                (void *)finder->attribution->held);
    for (uint32_t inspection = 0; inspection < finder->trace->inspection_count; inspection++)
        if (finder->trace->inspections[inspection].holder_count > 0)
            judge_inspection(search, inspection, &first_held);
    uint64_t *there = weigh_cut_off(search);
    for (size_t i = 0; i < finder->leaks->count; i++) {
        struct vt_leak *leak = &finder->leaks->items[i];
        const struct candidate *best = &search->best[i];
        if (best->holder && (leak->rebuilt || lasts(best)) && !is_cycle_afterwards(leak, best) &&
            best_of(best)->bytes * 2 >= there[i]) {
            leak->holder = holder_of(best->holder);
            leak->holder.stack_id = best->stack_id;
            leak->holder.step =
                vt_span_at(finder->attribution, finder->trace->inspections[best->inspection].event_index)
                    ->step;
            refine(leak);
        }
    }
    free(there);
}

void vt_leak_holders_find(struct vt_leak_finder *finder)
{
    struct search search = {.finder = finder};
    if (!finder->leaks->count)
        return;
    find_holders(&search);
    vt_leak_graphs_free(search.graphs);
    free(search.held);
    free(search.shares);
    free(search.candidates);
    vt_index_free(&search.names);
    free(search.best);
    free(search.last_made);
}
