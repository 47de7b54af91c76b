/* Advice on gradients that live through forward.
 *
 * A gradient that outlives an optimizer's step is not needed until its backward makes it again: the new one,
 * which is added to it and freed, would have taken its place. Gradients and passes may both be many, so the
 * bytes that all gradients would not have held are added up per pass, never gradient by gradient and pass by
 * pass. */
#include <stdlib.h>

#include "base/allocate.h"
#include "base/index.h"
#include "base/sort.h"
#include "findings/adviser.h"
#include "trace/frameworks.h"

/* What backward made. */
struct made {
    uint32_t stack_id, pass, order; /* order: ordinal among those of its stack and size in its pass */
    uint64_t bytes;
    uint32_t allocation;
};

/* A backward span, by its number as in vt_adviser.passes. */
struct pass {
    uint32_t span;
    uint32_t optimizer; /* the last span of an optimizer before it, VT_NEVER = none */
    uint32_t gone;      /* the first pass after that optimizer, 0 = none: gradients of earlier passes are not
                           needed in this one */
    bool forward;       /* between that and this pass, which is the first after it, is a forward */
    uint32_t forwards;  /* of passes up to this one: those with a forward */
    uint64_t bytes; /* of unneeded gradients: those that begin here less those that end here, modulo 2^64 */
};

struct search {
    struct vt_adviser *adviser;
    const struct vt_span *spans;
    size_t span_count;
    struct pass *passes; /* [0] is none */
    uint32_t pass_count;
    uint32_t *waits;  /* by span: the optimizer's span since which a forward but no backward has come; where
                         the  optimizer makes nothing, the one before that forward; VT_NEVER = none */
    uint32_t *makers; /* by span: the next one from there on of an optimizer that makes something, VT_NEVER =
                         none */
    struct made *list;
    size_t count;
};

/* What several passes made at the same place comes together, in order of passes. */
static int compare_made(const void *left, const void *right)
{
    const struct made *a = left, *b = right;

    return 8 * vt_order(a->stack_id, b->stack_id) + 4 * vt_order(a->bytes, b->bytes) +
           2 * vt_order(a->order, b->order) + vt_order(a->allocation, b->allocation);
}

static const struct vt_allocation *allocation_of(const struct search *search, const struct made *made)
{
    return &search->adviser->replay->allocations[made->allocation];
}

static uint8_t category_of(const struct search *search, const struct made *made)
{
    return search->adviser->attribution->labels[made->allocation].category;
}

static bool is_of_backward(const struct search *search, uint32_t index)
{
    return search->adviser->attribution->labels[index].phase == VT_PHASE_BACKWARD &&
           vt_whatif_counts(&search->adviser->whatif, &search->adviser->replay->allocations[index]);
}

/* What backward made with the stacks that make gradients. */
static void list_backward(struct search *search)
{
    const struct vt_replay *replay = search->adviser->replay;
    const struct vt_label *labels = search->adviser->attribution->labels;
    struct made *list = search->list = vt_allocate((replay->allocation_count + 1) * sizeof *list);
    uint8_t *makes = vt_allocate_zeros(replay->trace->stack_count, 1);

    for (uint32_t i = 0; i < replay->allocation_count; i++)
        if (labels[i].category == VT_CATEGORY_GRADIENT && is_of_backward(search, i))
            makes[replay->allocations[i].stack_id] = 1;
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];

        if (makes[block->stack_id] && is_of_backward(search, i))
            list[search->count++] = (struct made){
                block->stack_id, search->adviser->passes[block->alloc_event], 0, block->bytes, i};
    }
    free(makes);
    vt_sort(list, search->count, sizeof *list, compare_made);
    for (size_t i = 1; i < search->count; i++)
        if (list[i].stack_id == list[i - 1].stack_id && list[i].bytes == list[i - 1].bytes &&
            list[i].pass == list[i - 1].pass)
            list[i].order = list[i - 1].order + 1;
}

/* Stack of the first block that a span made, 0 = none. */
static uint32_t made_by(const struct search *search, const struct vt_span *span)
{
    const struct vt_event *events = search->adviser->replay->trace->events;

    for (uint32_t event = span->first_event; event <= span->last_event; event++)
        if (events[event].kind == VT_EVENT_ALLOC && events[event].stack_id)
            return events[event].stack_id;
    return 0;
}

static void read_spans(struct search *search)
{
    uint32_t optimizer = VT_NEVER, maker = VT_NEVER, before_forward = VT_NEVER;
    uint32_t gone = 0;
    bool waits = false, forward = false; /* no backward, and a forward, has come since `optimizer` */
    bool after_pass = false;             /* no forward has come since */

    search->passes = vt_allocate_zeros(search->span_count + 2, sizeof *search->passes);
    search->waits = vt_allocate_zeros(search->span_count + 1, sizeof *search->waits);
    search->makers = vt_allocate_zeros(search->span_count + 1, sizeof *search->makers);
    for (uint32_t i = 0; i < search->span_count; i++) {
        const struct vt_span *span = &search->spans[i];
        struct pass *pass = &search->passes[search->pass_count + 1];

        if (span->phase == VT_PHASE_OPTIMIZER) {
            optimizer = i;
            gone = search->pass_count + 1;
            waits = true;
            forward = false;
        } else if (span->phase == VT_PHASE_FORWARD || span->phase == VT_PHASE_EVAL) {
            forward |= waits;
            before_forward = after_pass && i > 0 ? i - 1 : before_forward;
            after_pass = false;
        } else if (span->phase == VT_PHASE_BACKWARD) {
            *pass =
                (struct pass){.span = i, .optimizer = optimizer, .gone = gone, .forward = waits && forward};
            pass->forwards = pass[-1].forwards + pass->forward;
            search->pass_count++;
            waits = false;
            after_pass = true;
            before_forward = VT_NEVER;
        }
        search->waits[i] = waits && forward ? optimizer : before_forward;
    }
    for (uint32_t i = (uint32_t)search->span_count; i-- > 0;) {
        if (search->spans[i].phase == VT_PHASE_OPTIMIZER && made_by(search, &search->spans[i]))
            maker = i;
        search->makers[i] = maker;
    }
}

static int compare_gone(const void *pass, const void *gone)
{
    return vt_order(((const struct pass *)pass)->gone, *(const uint32_t *)gone);
}

/* The first pass before which an optimizer stepped after the given one. */
static uint32_t first_later(const struct search *search, uint32_t pass)
{
    uint32_t gone = pass + 1;
    return (uint32_t)vt_lower_bound(search->passes, search->pass_count + 1, sizeof *search->passes, &gone,
                                    compare_gone);
}

/* Adds a gradient's bytes to the passes that do not need it, as if nothing was made again. True if there was
 * a time when it was not needed. */
static bool drop_gradient(struct search *search, const struct made *made, uint32_t *stack_id)
{
    const struct vt_allocation *gradient = allocation_of(search, made);
    uint32_t span = search->passes[made->pass].span, last_event = gradient->free_event - 1;
    uint32_t last = (uint32_t)(vt_span_at(search->adviser->attribution, last_event) - search->spans);
    uint32_t first = first_later(search, made->pass);
    uint32_t end = search->adviser->passes[search->spans[last].first_event] + 1;
    uint32_t wait = last > span ? search->waits[last] : VT_NEVER;
    bool dropped = false;

    if (gradient->free_event <= gradient->alloc_event)
        return false;
    if (last > span && !*stack_id && search->makers[span + 1] <= last)
        *stack_id = made_by(search, &search->spans[search->makers[span + 1]]);
    if (first < end) {
        search->passes[first].bytes += gradient->bytes;
        search->passes[end].bytes -= gradient->bytes;
        vt_whatif_touch(&search->adviser->whatif, gradient);
        dropped = search->passes[end - 1].forwards > search->passes[first - 1].forwards;
    }
    /* freed between forward and backward, or never used again */
    if (wait == VT_NEVER || wait < span)
        return dropped;
    if (!*stack_id && gradient->free_event != VT_NEVER) /* an optimizer that makes nothing shows no line */
        *stack_id = search->adviser->replay->trace->events[gradient->free_event].stack_id;
    vt_whatif_less(&search->adviser->whatif, gradient, search->spans[wait].last_event + 1,
                   gradient->free_event, gradient->bytes);
    return true;
}

/* ---- Made again ---- */

/* All that backward made in one place, by pass. Where a gradient and what its pass made again are alive
 * together, one of them would do: at any moment that is each pair of a gradient, and of what was made again
 * in a pass in which it would not have been there. */
struct place {
    const struct made *made;
    size_t count;
    uint32_t *gradients, *agains; /* alive: sums, as a Fenwick tree by index */
    struct turn *turns;
};

enum turn_kind { GRADIENT_COMES, AGAIN_COMES, AGAIN_GOES, GRADIENT_GOES };

struct turn {
    uint32_t event, index;
    enum turn_kind kind;
};

/* They are listed by index. */
static uint64_t turn_key(const void *turn)
{
    const struct turn *own = turn;
    return (uint64_t)own->event << 2 | own->kind;
}

static void add_to(uint32_t *tree, size_t count, size_t index, uint32_t change)
{
    for (size_t at = index + 1; at <= count; at += at & -at)
        tree[at - 1] += change;
}

/* The sum of the first `count`. */
static uint32_t sum_of(const uint32_t *tree, size_t count)
{
    uint32_t sum = 0;

    for (size_t at = count; at > 0; at -= at & -at)
        sum += tree[at - 1];
    return sum;
}

static int compare_pass(const void *made, const void *pass)
{
    return vt_order(((const struct made *)made)->pass, *(const uint32_t *)pass);
}

/* How many of the place were made before `pass`. */
static size_t made_before(const struct place *place, uint32_t pass)
{
    return vt_lower_bound(place->made, place->count, sizeof *place->made, &pass, compare_pass);
}

static size_t list_turns(const struct search *search, const struct place *place)
{
    size_t count = 0;

    for (uint32_t i = 0; i < place->count; i++) {
        const struct vt_allocation *block = allocation_of(search, &place->made[i]);
        const struct pass *pass = &search->passes[place->made[i].pass];
        bool is_gradient = category_of(search, &place->made[i]) == VT_CATEGORY_GRADIENT;

        if (is_gradient)
            place->turns[count++] = (struct turn){block->alloc_event, i, GRADIENT_COMES};
        if (is_gradient && block->free_event != VT_NEVER)
            place->turns[count++] = (struct turn){block->free_event, i, GRADIENT_GOES};
        if (!pass->forward || block->free_event == VT_NEVER)
            continue;
        place->turns[count++] = (struct turn){search->spans[pass->span].first_event, i, AGAIN_COMES};
        place->turns[count++] = (struct turn){block->free_event, i, AGAIN_GOES};
    }
    vt_sort_by_key(place->turns, count, sizeof *place->turns, turn_key);
    return count;
}

/* Change in the number of pairs by a turn, modulo 2^32. */
static uint32_t take_turn(const struct search *search, const struct place *place, const struct turn *turn,
                          uint32_t *agains)
{
    uint32_t pass = place->made[turn->index].pass, pairs;

    switch (turn->kind) {
    case GRADIENT_COMES:
        add_to(place->gradients, place->count, turn->index, 1);
        return 0;
    case GRADIENT_GOES:
        add_to(place->gradients, place->count, turn->index, UINT32_MAX);
        return sum_of(place->agains, made_before(place, first_later(search, pass))) - *agains;
    case AGAIN_COMES:
        pairs = sum_of(place->gradients, made_before(place, search->passes[pass].gone));
        add_to(place->agains, place->count, turn->index, 1);
        ++*agains;
        return pairs;
    case AGAIN_GOES:
        pairs = sum_of(place->gradients, made_before(place, search->passes[pass].gone));
        add_to(place->agains, place->count, turn->index, UINT32_MAX);
        --*agains;
        return 0 - pairs;
    }
    return 0;
}

static void drop_pairs(const struct search *search, const struct place *place)
{
    size_t count = list_turns(search, place);
    uint32_t agains = 0;

    for (size_t i = 0; i < count; i++) {
        int32_t pairs = (int32_t)take_turn(search, place, &place->turns[i], &agains);

        if (pairs)
            vt_whatif_less(&search->adviser->whatif, NULL, place->turns[i].event, VT_NEVER,
                           (uint64_t)pairs * place->made->bytes);
    }
    for (size_t i = 0; i < place->count; i++) {
        vt_whatif_touch(&search->adviser->whatif, allocation_of(search, &place->made[i]));
        place->gradients[i] = place->agains[i] = 0;
    }
}

static void drop_all_pairs(struct search *search)
{
    struct place place = {0};
    struct made *list = search->list;

    vt_sort(list, search->count, sizeof *list, compare_made);
    place.gradients = vt_allocate_zeros(search->count + 1, sizeof *place.gradients);
    place.agains = vt_allocate_zeros(search->count + 1, sizeof *place.agains);
    place.turns = vt_allocate_zeros(search->count * 4 + 1, sizeof *place.turns);
    for (size_t i = 0, end; i < search->count; i = end) {
        for (end = i + 1; end < search->count && list[end].stack_id == list[i].stack_id &&
                          list[end].bytes == list[i].bytes && list[end].order == list[i].order;
             end++)
            ;
        place.made = list + i;
        place.count = end - i;
        if (place.count > 1)
            drop_pairs(search, &place);
    }
    free(place.gradients);
    free(place.agains);
    free(place.turns);
}

/* ---- All ---- */

static void drop_in_passes(const struct search *search)
{
    uint64_t bytes = 0;

    for (uint32_t i = 1; i <= search->pass_count; i++) {
        const struct pass *pass = &search->passes[i];

        bytes += pass->bytes;
        if (pass->forward)
            vt_whatif_less(&search->adviser->whatif, NULL, search->spans[pass->optimizer].last_event + 1,
                           search->spans[pass->span].first_event, bytes);
    }
}

/* Gradients that are kept into the next step. */
struct kept {
    uint32_t step;
    uint64_t count, bytes;
};

static int by_step(const void *left, const void *right)
{
    return vt_order(((const struct kept *)left)->step, ((const struct kept *)right)->step);
}

/* Of the step with the most bytes. */
static struct kept most_of_a_step(struct kept *kept, size_t count)
{
    struct kept most = {0}, sum = {0};
    vt_sort(kept, count, sizeof *kept, by_step);
    for (size_t i = 0; i < count; i++) {
        if (sum.step != kept[i].step)
            sum = (struct kept){.step = kept[i].step};
        sum.count++;
        sum.bytes += kept[i].bytes;
        most = sum.bytes > most.bytes ? sum : most;
    }
    return most;
}

void vt_advise_zero_grad(struct vt_adviser *adviser)
{
    struct search search = {.adviser = adviser,
                            .spans = adviser->attribution->spans,
                            .span_count = adviser->attribution->span_count};
    struct kept *kept, most;
    size_t kept_count = 0;
    uint32_t stack_id = 0;
    char text[24];
    list_backward(&search);
    read_spans(&search);
    kept = vt_allocate_zeros(search.count + 1, sizeof *kept);
    for (size_t i = 0; i < search.count; i++) {
        if (category_of(&search, &search.list[i]) != VT_CATEGORY_GRADIENT ||
            !drop_gradient(&search, &search.list[i], &stack_id))
            continue;
        const struct vt_allocation *gradient = allocation_of(&search, &search.list[i]);
        kept[kept_count++] = (struct kept){.step = vt_label_of(adviser->attribution, gradient)->step,
                                           .bytes = gradient->bytes};
    }
    most = most_of_a_step(kept, kept_count);
    drop_all_pairs(&search);
    drop_in_passes(&search);
    vt_advise(
        adviser, VT_ADVICE_ZERO_GRAD, vt_whatif_saves(&adviser->whatif),
        (struct vt_advice_subject){.stack_id = stack_id,
                                   .subject = vt_clear_of(adviser->replay->trace, stack_id)},
        &vt_remedy_zero_grad,
        "%llu gradients of a step (%s) are kept through the next forward pass, which does not need them",
        (unsigned long long)most.count, vt_format_bytes(most.bytes, text));
    free(kept);
    free(search.passes);
    free(search.waits);
    free(search.makers);
    free(search.list);
}
