/* The Python name that holds a leak: of those that a census saw, the one that holds most of its bytes, itself
 * or by the autograd graph that hangs on its tensor. */
#include "attribute/leaks_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* A block of a leak whose autograd node is known. */
struct numbered {
    uint64_t number;
    uint32_t allocation;
};

/* Of blocks alive at a look. */
struct hold {
    uint64_t bytes;
    uint32_t first_step, last_step; /* that made them */
};

struct candidate {
    const struct vt_look_holder *holder; /* the first seen of that name */
    struct hold direct, by_graph;
};

struct search {
    const struct vt_leak_finder *finder;
    struct numbered *numbered; /* of the leak, by number */
    size_t numbered_count;
    struct candidate *candidates; /* of one look */
    size_t count, capacity;
    struct vt_index names;
};

static uint64_t number_of(uint64_t sequence)
{
    return ((sequence & ((UINT64_C(1) << VT_SEQUENCE_THREAD_SHIFT) - 1)) - 2) / 2;
}

/* "list 'history' in __main__, 3 items" is the same later, when there are more. */
static uint64_t key_of(const char *name)
{
    size_t bytes = strlen(name);
    const char *comma = strrchr(name, ',');
    if (comma && strstr(comma, " item"))
        bytes = (size_t)(comma - name);
    return XXH3_64bits(name, bytes);
}

static int compare_numbers(const void *a, const void *b)
{
    const struct numbered *left = a, *right = b;
    return (left->number > right->number) - (left->number < right->number);
}

static int number_blocks(struct search *search, uint32_t leak)
{
    const struct vt_leak_finder *finder = search->finder;
    size_t capacity = 0;
    int error = 0;
    free(search->numbered);
    search->numbered = NULL;
    search->numbered_count = 0;
    for (size_t i = 0; i < finder->replay->allocation_count && !error; i++) {
        uint32_t class = finder->class_of[i];
        uint64_t sequence = finder->replay->allocations[i].sequence;
        if (class == VT_NO_CLASS || finder->classes[class].group != leak || sequence % 2 ||
            sequence <= VT_SEQUENCE_NO_NUMBER ||
            !finder->made_node[finder->replay->allocations[i].alloc_event])
            continue; /* a later one carries the number of a node that is not its own */
        error =
            vt_reserve(&search->numbered, &capacity, search->numbered_count + 1, sizeof *search->numbered);
        if (!error)
            search->numbered[search->numbered_count++] = (struct numbered){number_of(sequence), (uint32_t)i};
    }
    if (search->numbered_count > 1)
        qsort(search->numbered, search->numbered_count, sizeof *search->numbered, compare_numbers);
    return error;
}

static size_t first_from(const struct search *search, uint64_t number)
{
    return vt_lower_bound(search->numbered, search->numbered_count, sizeof *search->numbered,
                          &(struct numbered){.number = number}, compare_numbers);
}

static void add_block(struct hold *hold, const struct vt_allocation *block)
{
    if (hold->bytes == 0 || block->step < hold->first_step)
        hold->first_step = block->step;
    if (hold->bytes == 0 || block->step > hold->last_step)
        hold->last_step = block->step;
    hold->bytes += block->bytes;
}

/* Blocks alive at the look whose nodes the holder's tensor keeps: "12-40,52-52". */
static void add_graph(const struct search *search, const struct vt_look_holder *holder, uint32_t event,
                      struct hold *hold)
{
    for (const char *at = holder->nodes; *at;) {
        char *end;
        uint64_t first = strtoull(at, &end, 10), last = *end == '-' ? strtoull(end + 1, &end, 10) : first;
        for (size_t i = first_from(search, first);
             i < search->numbered_count && search->numbered[i].number <= last; i++) {
            const struct vt_allocation *block =
                &search->finder->replay->allocations[search->numbered[i].allocation];
            if (block->alloc_event < event && block->free_event > event)
                add_block(hold, block);
        }
        if (*end != ',')
            break;
        at = end + 1;
    }
}

static void unite(struct hold *hold, const struct hold *more)
{
    if (hold->bytes == 0 || more->first_step < hold->first_step)
        hold->first_step = more->first_step;
    if (hold->bytes == 0 || more->last_step > hold->last_step)
        hold->last_step = more->last_step;
    hold->bytes += more->bytes;
}

static struct candidate *candidate_of(struct search *search, const struct vt_look_holder *holder)
{
    uint64_t key = key_of(holder->holder);
    uint32_t at = vt_index_get(&search->names, key);
    if (at != VT_INDEX_NONE)
        return &search->candidates[at];
    if (vt_reserve(&search->candidates, &search->capacity, search->count + 1, sizeof *search->candidates) ||
        vt_index_put(&search->names, key, (uint32_t)search->count))
        return NULL;
    search->candidates[search->count] = (struct candidate){.holder = holder};
    return &search->candidates[search->count++];
}

static int count_look(struct search *search, uint32_t leak, uint32_t look)
{
    const struct vt_leak_finder *finder = search->finder;
    const struct vt_attribution *attribution = finder->attribution;
    const struct vt_look *seen = &finder->trace->looks[look];
    vt_index_free(&search->names);
    search->names = (struct vt_index){0};
    search->count = 0;
    for (size_t i = 0; i < attribution->held_count; i++) {
        const struct vt_held *held = &attribution->held[i];
        uint32_t class = held->look == look ? finder->class_of[held->allocation] : VT_NO_CLASS;
        if (class == VT_NO_CLASS || finder->classes[class].group != leak)
            continue;
        struct candidate *candidate = candidate_of(search, held->holder);
        if (!candidate)
            return -ENOMEM;
        add_block(&candidate->direct, &finder->replay->allocations[held->allocation]);
    }
    for (size_t i = 0; i < seen->holder_count; i++) {
        struct hold hold = {0};
        add_graph(search, &seen->holders[i], seen->event_index, &hold);
        struct candidate *candidate = hold.bytes ? candidate_of(search, &seen->holders[i]) : NULL;
        if (hold.bytes && !candidate)
            return -ENOMEM;
        if (candidate)
            unite(&candidate->by_graph, &hold);
    }
    return 0;
}

static const struct hold *best_of(const struct candidate *candidate)
{
    return candidate->direct.bytes > candidate->by_graph.bytes ? &candidate->direct : &candidate->by_graph;
}

/* A variable that holds but what the last step made, and will hold what the next one makes, is not why it
 * stays. Of two that hold about the same graph, the one whose own tensor is the larger hands it on. */
static bool is_better(const struct candidate *candidate, const struct candidate *best)
{
    uint64_t bytes = best_of(candidate)->bytes, most = best ? best_of(best)->bytes : 0;
    bool lasts = best_of(candidate)->first_step != best_of(candidate)->last_step;
    bool best_lasts = best && best_of(best)->first_step != best_of(best)->last_step;
    if (!best || lasts != best_lasts)
        return !best || lasts;
    if (bytes > most + most / 10 || most > bytes + bytes / 10)
        return bytes > most;
    return candidate->direct.bytes >= best->direct.bytes;
}

/* What looks and stacks say together. */
static void refine(struct vt_leak *leak)
{
    static const struct {
        const char *kind;
        uint8_t from, verdict;
    } known[] = {{"traceback", VT_LEAK_TENSOR, VT_LEAK_EXCEPTION},
                 {"traceback", VT_LEAK_GRAPH, VT_LEAK_EXCEPTION},
                 {"cell", VT_LEAK_TENSOR, VT_LEAK_HOOK},
                 {"cycle", VT_LEAK_TENSOR, VT_LEAK_CYCLE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (leak->verdict == known[i].from && strcmp(leak->holder->kind, known[i].kind) == 0) {
            leak->verdict = known[i].verdict;
            return;
        }
}

/* Parameters, buffers and optimizer state have names of their own, and no other holder is told of them. */
static void find_owners(const struct vt_leak_finder *finder, uint32_t number)
{
    struct vt_leak *leak = &finder->leaks->items[number];
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        const struct vt_allocation *block = &finder->replay->allocations[i];
        uint32_t class = finder->class_of[i];
        if (class == VT_NO_CLASS || finder->classes[class].group != number || !block->owner ||
            block->step < leak->first_step || !vt_leak_is_kept(finder, i))
            continue;
        leak->first_owner = leak->first_owner ? leak->first_owner : block->owner;
        leak->last_owner = block->owner;
        leak->owned_blocks++;
    }
    if (leak->first_owner && strcmp(leak->first_owner, leak->last_owner) == 0)
        leak->first_owner = leak->last_owner = NULL; /* a name that each step uses anew */
}

static int find_holder(struct search *search, uint32_t number)
{
    struct vt_leak *leak = &search->finder->leaks->items[number];
    struct candidate best = {0};
    int error = number_blocks(search, number);
    for (uint32_t look = 0; look < search->finder->trace->look_count && !error; look++) {
        if (search->finder->trace->looks[look].holder_count == 0)
            continue;
        error = count_look(search, number, look);
        for (size_t i = 0; i < search->count && !error; i++)
            if (is_better(&search->candidates[i], best.holder ? &best : NULL))
                best = search->candidates[i];
    }
    if (best.holder && (leak->rebuilt || best_of(&best)->first_step != best_of(&best)->last_step)) {
        leak->holder = best.holder;
        refine(leak);
    }
    if (!leak->holder)
        find_owners(search->finder, number);
    return error;
}

int vt_leak_holders_find(struct vt_leak_finder *finder)
{
    struct search search = {.finder = finder};
    int error = 0;
    for (uint32_t i = 0; i < finder->leaks->count && !error; i++)
        error = find_holder(&search, i);
    free(search.numbered);
    free(search.candidates);
    vt_index_free(&search.names);
    return error;
}
