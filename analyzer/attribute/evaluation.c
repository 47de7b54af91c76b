/* Evaluation: forward that makes no autograd nodes where the same operators do at other times. */
#include "attribute/evaluation.h"

#include "attribute/event_phases.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

/* Each operator of forward that makes nodes at some time votes: did it make one this time? */
struct votes {
    struct vt_finder *finder;
    uint64_t *keys;         /* by stack */
    struct vt_index makers; /* keys of operators that make nodes at some time */
    uint8_t *cast;          /* by event: VOTE_… */
};
enum { VOTE_NONE, VOTE_NODE, VOTE_NO_NODE };

/* Allocations of one operator are consecutive; the first has the node. */
static void cast_votes(struct votes *votes)
{
    struct vt_finder *finder = votes->finder;
    const struct vt_phases *phases = finder->phases;
    const struct vt_event *events = finder->trace->events;
    for (int round = 0; round < 2; round++) {
        uint64_t last = 0;
        for (size_t i = 0; i < phases->module_event_count; i++) {
            uint32_t event = phases->module_events[i];
            uint64_t key = votes->keys[events[event].stack_id];
            bool node = phases->grad_mode[event];
            if (key == 0 || finder->labels[event] != VT_PHASE_FORWARD ||
                (vt_finder_traits(finder, events[event].stack_id) & VT_TRAIT(RECOMPUTE)))
                continue;
            if (round == 0 && node)
                vt_index_put(&votes->makers, key, 1);
            if (round == 1 && node)
                votes->cast[event] = VOTE_NODE;
            else if (round == 1 && key != last && vt_index_get(&votes->makers, key) != VT_INDEX_NONE)
                votes->cast[event] = VOTE_NO_NODE;
            last = key;
        }
    }
}

/* The first event of a batch in [first, end), `end` if there is none. */
static uint32_t next_batch(const struct vt_finder *finder, uint32_t first, uint32_t end)
{
    while (first < end && finder->signs[first] != SIGN_SOURCE && finder->signs[first] != SIGN_DATA)
        first++;
    return first;
}

/* Labels runs without nodes in [first, end) as evaluation, each from the batch before it to the next one. */
static void mark_evaluation(struct votes *votes, uint32_t first, uint32_t end)
{
    struct vt_finder *finder = votes->finder;
    uint32_t start = first, count = 0, last_vote = first;
    bool open = true; /* all events from `start` on may be evaluation */
    for (uint32_t i = first; i <= end; i++) {
        bool at_end = i == end;
        bool batch = !at_end && (finder->signs[i] == SIGN_SOURCE || finder->signs[i] == SIGN_DATA);
        if (at_end || votes->cast[i] == VOTE_NODE) {
            if (open && count >= 2)
                memset(finder->labels + start, VT_PHASE_EVAL,
                       (at_end ? end : next_batch(finder, last_vote + 1, i)) - start);
            count = 0;
            open = false;
        } else if (votes->cast[i] == VOTE_NO_NODE) {
            count++;
            last_vote = i;
            if (!open)
                start = i;
            open = true;
        } else if (!open && batch) {
            start = i;
            open = true;
        }
    }
}

/* Labels forward in functions whose names say evaluation, with the frees in between. */
static void follow_names(struct vt_finder *finder)
{
    bool inside = false;
    for (uint32_t i = 0; i < finder->trace->event_count; i++) {
        enum vt_sign sign = (enum vt_sign)finder->signs[i];
        if (sign == SIGN_FORWARD || sign == SIGN_SCRIPT || sign == SIGN_SOURCE || sign == SIGN_DATA)
            inside = vt_finder_traits(finder, finder->trace->events[i].stack_id) & VT_TRAIT(EVALUATION);
        else if (finder->labels[i] != VT_PHASE_FORWARD)
            inside = false;
        if (inside && finder->labels[i] == VT_PHASE_FORWARD)
            finder->labels[i] = VT_PHASE_EVAL;
    }
}

void vt_evaluation_find(struct vt_finder *finder)
{
    const struct vt_trace *trace = finder->trace;
    struct votes votes = {.finder = finder};
    votes.keys = vt_allocate_zeros(trace->stack_count, sizeof *votes.keys);
    votes.cast = vt_allocate_zeros(trace->event_count + 1, 1);
    for (uint32_t id = 1; id < trace->stack_count; id++)
        votes.keys[id] = vt_module_code(trace, id);
    cast_votes(&votes);
    for (uint32_t i = 0; i < trace->event_count;) {
        uint32_t end = i;
        while (end < trace->event_count && finder->labels[end] == VT_PHASE_FORWARD)
            end++;
        if (end > i)
            mark_evaluation(&votes, i, end);
        i = end + (end == i);
    }
    follow_names(finder);
    vt_index_free(&votes.makers);
    free(votes.keys);
    free(votes.cast);
}
