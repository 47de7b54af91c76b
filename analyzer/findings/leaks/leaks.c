/* Leaks: growth that repeats. Bytes alive at the start of step after step, by the stack that made them.
 *
 * What a step made is kept if it is alive when the last step begins. It is a leak if keeping repeats: in at
 * least VT_LEAK_BIRTHS steps, up to the end, and with growing total bytes. That excludes memory taken once,
 * buffers that fill and stop, values that the next step replaces, and varying sizes. The last step itself is
 * left out: a program that ends frees what it kept. */
#include "findings/leaks/leaks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "findings/leaks/cache.h"
#include "findings/leaks/cycles.h"
#include "findings/leaks/groups.h"
#include "findings/leaks/growth.h"
#include "findings/leaks/holders.h"
#include "findings/leaks/lines.h"
#include "findings/leaks/owners.h"
#include "findings/leaks/remaining.h"

static int compare_parts(const void *a, const void *b)
{
    const struct vt_leak_part *left = a, *right = b;
    return 2 * vt_order(right->bytes_per_step, left->bytes_per_step) +
           vt_order(left->stack_id, right->stack_id);
}

/* What fills the GPU first. */
static int compare_leaks(const void *a, const void *b)
{
    const struct vt_leak *left = a, *right = b;
    return 8 * vt_order(right->is_leak, left->is_leak) +
           4 * vt_order(left->verdict == VT_LEAK_HOST_PINNED, right->verdict == VT_LEAK_HOST_PINNED) +
           2 * vt_order(right->bytes_per_step, left->bytes_per_step) +
           vt_order(left->stack_id, right->stack_id);
}

/* Sorts each leak's parts, finds its category, and counts it. */
static void sum_up(struct vt_leaks *leaks)
{
    for (size_t i = 0; i < leaks->count; i++) {
        struct vt_leak *leak = &leaks->items[i];
        uint64_t categories[VT_CATEGORY_COUNT] = {0};
        if (leak->part_count > 1)
            qsort(leak->parts, leak->part_count, sizeof *leak->parts, compare_parts);
        for (size_t k = 0; k < leak->part_count; k++)
            categories[leak->parts[k].category] += leak->parts[k].bytes;
        for (uint8_t c = 0; c < VT_CATEGORY_COUNT; c++)
            if (categories[c] > categories[leak->category])
                leak->category = c;
        leak->collected = leak->verdict == VT_LEAK_CYCLE && leak->part_count > 0;
        leaks->leak_count += leak->is_leak;
        if (vt_leak_fills_device(leak))
            leaks->bytes_per_step += leak->bytes_per_step;
    }
}

/* At an event, memory of several steps was there for a census to find; a tensor that each step replaces is
 * all there ever is. */
static bool had_grown(const struct vt_leak_finder *finder, const struct vt_leak *leak, uint32_t event_index)
{
    uint32_t first = VT_NEVER, last = 0;
    for (size_t i = 0; i < leak->kept_count && (first == VT_NEVER || first == last); i++) {
        const struct vt_allocation *block = &finder->replay->allocations[leak->kept[i]];
        uint32_t step = vt_leak_step_of(finder, block->alloc_event);
        if (block->alloc_event > event_index)
            break;
        if (!vt_alive_at(block, event_index))
            continue;
        first = step < first ? step : first;
        last = step > last ? step : last;
    }
    return leak->kept_count > 0 ? first < last : vt_leak_step_of(finder, event_index) > leak->first_step;
}

/* How far inspections looked for what holds a leak. */
enum examined { NOT, UNSEEN, CUT_SHORT, NO_CYCLES, ALL };

static enum examined how_examined(const struct vt_leak_finder *finder, const struct vt_leak *leak)
{
    enum examined most = NOT;
    for (size_t i = 0; i < finder->trace->inspection_count; i++) {
        const struct vt_inspection *seen = &finder->trace->inspections[i];
        if (!seen->census)
            continue;
        enum examined saw = !had_grown(finder, leak, seen->event_index) ? UNSEEN
                            : !seen->census_ended                       ? CUT_SHORT
                            : !seen->census_cycles                      ? NO_CYCLES
                                                                        : ALL;
        most = saw > most ? saw : most;
    }
    return most;
}

#define ASK "Call vramtrace.inspect(\"…\") or run `vramtrace ctl PID inspect` once it has grown"

/* Why no name is known for what holds a leak: a census that saw it grown and ended would have found it. */
static const char *why_unknown(const struct vt_leak_finder *finder, const struct vt_leak *leak)
{
    static const char *const reasons[] = {
        [NOT] = "the inspections had no time to search for holders. " ASK,
        [UNSEEN] = "no inspection searched for holders while it was alive. " ASK,
        [CUT_SHORT] = "the search for holders ran out of time. " ASK,
        [NO_CYCLES] =
            "no Python variable refers to it, and there was no time to search reference cycles. " ASK,
        [ALL] = "no Python variable refers to it: a library or C++ code does",
    };
    if (!leak->is_leak || leak->holder.name || leak->first_owner || leak->verdict == VT_LEAK_DRIVER ||
        leak->verdict == VT_LEAK_CREATE_GRAPH || leak->verdict == VT_LEAK_HOST_PINNED ||
        (leak->verdict == VT_LEAK_CYCLE && leak->collected))
        return NULL;
    if (finder->trace->inspection_count == 0)
        return "the program was never inspected (was the run too short?). " ASK;
    return reasons[how_examined(finder, leak)];
}

/* That gradients and parameters hold each other is a cause only if nothing else was found to hold them. */
static void settle_gradients(const struct vt_leak_finder *finder, struct vt_leak *leak)
{
    const size_t bytes = strlen(leak->why);
    if (leak->verdict != VT_LEAK_CREATE_GRAPH)
        return;
    if (how_examined(finder, leak) >= NO_CYCLES) {
        snprintf(leak->why + bytes, sizeof leak->why - bytes,
                 " No Python variable refers to them: parameters and these gradients keep each other alive.");
        return;
    }
    vt_leak_set_verdict(leak, VT_LEAK_GRAPH);
    snprintf(leak->remedy, sizeof leak->remedy, "%s", vt_text_unsettled_gradients);
}

/* Parameters that grow as their gradients do, and that no Python variable keeps: the graph of the gradients
 * does. */
static void settle_parameters(const struct vt_leak_finder *finder, struct vt_leak *leak)
{
    const struct vt_leaks *leaks = finder->leaks;
    if (leak->verdict != VT_LEAK_TENSOR || leak->category != VT_CATEGORY_PARAMETER || leak->holder.name ||
        how_examined(finder, leak) < NO_CYCLES)
        return;
    for (size_t i = 0; i < leaks->count; i++)
        for (size_t k = 0; leaks->items[i].verdict == VT_LEAK_CREATE_GRAPH && k < leaks->items[i].part_count;
             k++) {
            const struct vt_leak_part *part = &leaks->items[i].parts[k];
            if (part->category != VT_CATEGORY_GRADIENT || part->bytes_per_step != leak->bytes_per_step)
                continue;
            vt_leak_set_verdict(leak, VT_LEAK_CREATE_GRAPH);
            snprintf(
                leak->why, sizeof leak->why,
                "The parameters of these gradients: as many bytes per step, and no Python variable refers to "
                "them. Parameters and gradients keep each other alive.");
            return;
        }
}

/* What each leak keeps; nothing can be left out of a tensor that each step replaces. */
static void list_kept(const struct vt_leak_finder *finder)
{
    struct vt_leaks *leaks = finder->leaks;
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        uint32_t number = vt_leak_of(finder, i);
        struct vt_leak *leak = number == VT_NO_CLASS ? NULL : &leaks->items[number];
        if (!leak || leak->rebuilt || !vt_leak_is_kept(finder, i) ||
            vt_leak_step_of(finder, finder->replay->allocations[i].alloc_event) < leak->first_step)
            continue;
        leak->kept = leak->kept ? leak->kept : vt_allocate_zeros(leak->blocks + 1, sizeof *leak->kept);
        if (leak->kept_count < leak->blocks)
            leak->kept[leak->kept_count++] = i;
    }
}

static void find(struct vt_leak_finder *finder)
{
    static void (*const finders[])(struct vt_leak_finder *) = {
        vt_leak_finder_read,  vt_leak_cycles_find,  vt_leak_growth_find, vt_leak_groups_find,
        vt_leak_rebuilt_find, vt_leak_holders_find, vt_leak_owners_find, vt_leak_lines_find};
    struct vt_leaks *leaks = finder->leaks;
    for (size_t i = 0; i < sizeof finders / sizeof *finders; i++)
        finders[i](finder);
    sum_up(leaks);
    list_kept(finder);
    for (size_t i = 0; i < leaks->count; i++)
        settle_gradients(finder, &leaks->items[i]);
    for (size_t i = 0; i < leaks->count; i++) {
        settle_parameters(finder, &leaks->items[i]);
        leaks->items[i].holder_unknown = why_unknown(finder, &leaks->items[i]);
    }
    vt_leak_cache_find(finder);
    if (leaks->count > 1)
        qsort(leaks->items, leaks->count, sizeof *leaks->items, compare_leaks);
}

static int lowest_device(const struct vt_replay *replay)
{
    int lowest = (int)VT_MAX_DEVICES;
    for (size_t i = 0; i < replay->allocation_count; i++)
        if (replay->allocations[i].device_index >= 0 && replay->allocations[i].device_index < lowest)
            lowest = replay->allocations[i].device_index;
    return lowest;
}

/* ---- Absence ---- */

#define MARKS "vramtrace.step() in each iteration (in C: VRAMTRACE_STEP()) marks them."
#define LAST_STEP_TIMES 10u /* as much as the other steps on average: it may be a loop of its own */
#define WARM_STEPS 2u       /* the first: what they keep, such as caches that are filled once, is no growth */
#define STEPS_LIMIT (1u << 24) /* each takes 60 bytes */
#define STEPS_PART 10u         /* a smaller part of the allocations in steps says nothing of the program */

/* A forward pass before the first step. */
static bool prepares_graphs(const struct vt_attribution *attribution, uint32_t event)
{
    const struct vt_span *span = vt_span_at(attribution, event);
    return span->step == 0 && span->phase == VT_PHASE_FORWARD;
}

/* Counts what was allocated on the device, but to prepare graphs: in all, in steps, and in the last one. */
static void count_allocations(const struct vt_leak_finder *finder, size_t *all, size_t *in_steps,
                              size_t *in_last)
{
    for (size_t i = 0; i < finder->replay->allocation_count; i++) {
        if (finder->class_of[i] == VT_NO_CLASS)
            continue;
        const uint32_t event = finder->replay->allocations[i].alloc_event;
        const uint32_t step = vt_leak_step_of(finder, event);
        if (step == 0 && prepares_graphs(finder->attribution, event))
            continue;
        ++*all;
        *in_steps += step > 0;
        *in_last += step == finder->step_count;
    }
}

static size_t first_border(const uint32_t *borders, size_t count, uint32_t event)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (borders[middle] < event)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* What is allocated when each step begins: bytes[k] when step k + 1 does. */
static void weigh_beginnings(const struct vt_leak_finder *finder, const uint32_t *borders, uint64_t *bytes)
{
    const struct vt_replay *replay = finder->replay;
    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *allocation = &replay->allocations[i];
        if (finder->class_of[i] == VT_NO_CLASS || allocation->kind == VT_ALLOCATION_HOST)
            continue;
        bytes[first_border(borders, finder->step_count, allocation->alloc_event)] += allocation->bytes;
        bytes[first_border(borders, finder->step_count, allocation->free_event)] -= allocation->bytes;
    }
    for (size_t k = 1; k <= finder->step_count; k++)
        bytes[k] += bytes[k - 1];
}

static void compare_halves(const struct vt_leak_finder *finder)
{
    struct vt_leaks *leaks = finder->leaks;
    const size_t count = finder->step_count, middle = (count + WARM_STEPS) / 2;
    uint32_t *borders = vt_allocate_zeros(count + 1, sizeof *borders);
    uint64_t *bytes = vt_allocate_zeros(count + 1, sizeof *bytes);
    for (size_t k = 0; k < count; k++) { /* a step without events begins with the next one */
        borders[k] = finder->borders[k];
        if (k > 0 && borders[k] < borders[k - 1])
            borders[k] = borders[k - 1];
    }
    weigh_beginnings(finder, borders, bytes);
    leaks->early_bytes = leaks->late_bytes = UINT64_MAX;
    for (size_t k = WARM_STEPS; k < count; k++) {
        uint64_t *least = k < middle ? &leaks->early_bytes : &leaks->late_bytes;
        *least = bytes[k] < *least ? bytes[k] : *least;
    }
    free(borders);
    free(bytes);
}

/* "No leak" is said of what was measured only: growth from step to step. */
static void judge_absence(const struct vt_leak_finder *finder)
{
    struct vt_leaks *leaks = finder->leaks;
    size_t all = 0, in_steps = 0, in_last = 0;
    count_allocations(finder, &all, &in_steps, &in_last);
    leaks->judged = true;
    if (leaks->leak_count > 0)
        return;
    if (in_steps * STEPS_PART < all) {
        leaks->judged = false;
        snprintf(leaks->unjudged, sizeof leaks->unjudged,
                 "Leaks cannot be judged: only %zu %% of all allocations are in steps. " MARKS,
                 in_steps * 100 / all);
    } else if (in_last * (finder->step_count - 1) > (in_steps - in_last) * LAST_STEP_TIMES &&
               in_last * 2 > all) {
        leaks->judged = false;
        snprintf(leaks->unjudged, sizeof leaks->unjudged,
                 "No leak in steps 1 to %" PRIu32
                 ". The last step has %zu %% of all allocations and cannot be judged: "
                 "if it is a loop, " MARKS,
                 finder->step_count - 1, in_last * 100 / all);
    }
}

static void say_why_unjudged(struct vt_leaks *leaks)
{
    if (leaks->step_count == 0)
        snprintf(leaks->unjudged, sizeof leaks->unjudged,
                 "No steps were found (no modules, no backward passes), so growth per step cannot be "
                 "judged. " MARKS);
    else if (leaks->step_count > STEPS_LIMIT)
        snprintf(leaks->unjudged, sizeof leaks->unjudged,
                 "%" PRIu32 " steps: too many to judge leaks (%u at most).", leaks->step_count, STEPS_LIMIT);
    else
        snprintf(leaks->unjudged, sizeof leaks->unjudged,
                 "%" PRIu32 " step%s: too few to judge leaks (%u needed).", leaks->step_count,
                 leaks->step_count == 1 ? "" : "s", VT_LEAK_STEPS);
}

void vt_leaks_find(const struct vt_attribution *attribution, struct vt_places *places, int device_index,
                   struct vt_leaks *leaks)
{
    struct vt_leak_finder finder = {.attribution = attribution,
                                    .places = places,
                                    .trace = attribution->trace,
                                    .replay = attribution->replay,
                                    .device_index = device_index,
                                    .step_count = attribution->step_count,
                                    .leaks = leaks};
    finder.reports_host = lowest_device(attribution->replay) == device_index;
    *leaks = (struct vt_leaks){.step_count = attribution->step_count};
    if (attribution->step_count < VT_LEAK_STEPS || attribution->step_count > STEPS_LIMIT) {
        say_why_unjudged(leaks);
        vt_leak_remaining_find(attribution, places, device_index, finder.reports_host, leaks);
        return;
    }
    find(&finder);
    judge_absence(&finder);
    compare_halves(&finder);
    if (!leaks->judged)
        vt_leak_remaining_find(attribution, places, device_index, finder.reports_host, leaks);
    vt_leak_finder_free(&finder);
}
