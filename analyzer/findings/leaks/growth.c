/* Which classes grow repeatedly: by what each step keeps, or as one tensor that each step makes anew. There
 * may be as many series as lines of code, and each has only its changes. */
#include "findings/leaks/growth.h"

#include "base/allocate.h"
#include "base/sort.h"
#include "findings/leaks/lines.h"
#include "format/allocator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Early records far from the others have another cause: a buffer made at the start. */
static uint32_t skip_stray_records(const uint32_t *records, uint32_t count)
{
    uint32_t first = 0;
    while (count - first > VT_LEAK_BIRTHS && (records[first + 1] - records[first]) * (count - first - 2) >
                                                 3 * (records[count - 1] - records[first + 1]))
        first++;
    return first;
}

static int compare_changes(const void *a, const void *b)
{
    const struct vt_leak_change *left = a, *right = b;
    return vt_order(left->step, right->step);
}

/* Number of changes up to a step, inclusive. */
static size_t changes_up_to(const struct vt_leak_change *series, size_t count, uint32_t step)
{
    const struct vt_leak_change next = {.step = step + 1};
    return vt_lower_bound(series, count, sizeof next, &next, compare_changes);
}

static uint64_t bytes_at(const struct vt_leak_change *series, size_t count, uint32_t step)
{
    size_t up_to = changes_up_to(series, count, step);
    return up_to > 0 ? series[up_to - 1].bytes : 0;
}

/* Whether growth continues to the end at its first pace: what fills a cache slows down and stops. */
static bool goes_on(const struct vt_leak_change *series, size_t changes, const uint32_t *records,
                    uint32_t count, uint32_t to, uint32_t at_once)
{
    uint32_t first = records[0], last = records[count - 1], spread = last - first;
    uint32_t middle = first + (to - first) / 2, early = 0, pause = at_once > 1 ? 1 + at_once : 2,
             late = to - (to - first) / 4;
    uint64_t first_bytes = bytes_at(series, changes, first), last_bytes = bytes_at(series, changes, last);
    uint64_t least = first_bytes + (last_bytes - first_bytes) / 2;
    if (2 * spread > pause * (count - 1))
        pause = (2 * spread + count - 2) / (count - 1);
    if (to - last >= pause || bytes_at(series, changes, to) < last_bytes - last_bytes / 10)
        return false;
    if (bytes_at(series, changes, late) < least) /* sizes that vary fall back */
        return false;
    for (size_t i = changes_up_to(series, changes, late); i < changes && series[i].step <= to; i++)
        if (series[i].bytes < least)
            return false;
    for (uint32_t i = 0; i < count; i++)
        early += records[i] <= middle;
    return (count - early) * 2 >= early &&
           last_bytes - bytes_at(series, changes, middle) >= (last_bytes - first_bytes) / 4;
}

/* The slope of the least-squares line through the records: with only the first and the last, one block that
 * happens to live at one of them would change it. */
static uint64_t slope(const struct vt_leak_change *series, size_t changes, const uint32_t *records,
                      uint32_t count)
{
    __int128 steps = 0, bytes = 0, products = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t step = records[i] - records[0], there = (int64_t)bytes_at(series, changes, records[i]);
        steps += step;
        bytes += there;
        products += (__int128)step * there;
        squares += (__int128)step * step;
    }
    __int128 spread = count * squares - steps * steps, rise = count * products - steps * bytes;
    return (uint64_t)((rise + spread / 2) / spread);
}

/* Lists the steps in which a series exceeds all that it was before, from one step to the other. */
static uint32_t list_records(const struct vt_leak_change *series, size_t changes, uint32_t from, uint32_t to,
                             uint32_t *records)
{
    uint32_t count = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < changes && series[i].step <= to; i++) {
        if (series[i].bytes <= most)
            continue;
        most = series[i].bytes;
        if (series[i].step >= from) /* what was cleared before may be cleared again */
            records[count++] = series[i].step;
    }
    return count;
}

/* Whether as much was added at equal distances, of several steps: then fewer times are enough. */
static bool is_regular(const struct vt_leak_change *series, size_t changes, const uint32_t *records,
                       uint32_t count)
{
    if (count != VT_LEAK_REGULAR_BIRTHS)
        return false;
    uint64_t bytes[VT_LEAK_REGULAR_BIRTHS];
    for (uint32_t i = 0; i < count; i++)
        bytes[i] = bytes_at(series, changes, records[i]);
    return records[1] - records[0] > 1 && records[1] - records[0] == records[2] - records[1] &&
           bytes[1] - bytes[0] == bytes[2] - bytes[1] && bytes[0] == bytes[1] - bytes[0];
}

bool vt_growth_repeats(const struct vt_leak_change *series, size_t changes, uint32_t from, uint32_t to,
                       uint32_t at_once, struct vt_growth *growth)
{
    uint32_t *records = vt_allocate_zeros(changes + 1, sizeof *records);
    uint32_t count = list_records(series, changes, from, to, records);
    bool repeats = false;
    if (count >= VT_LEAK_BIRTHS || is_regular(series, changes, records, count)) {
        uint32_t first = skip_stray_records(records, count);
        const uint32_t *kept = records + first;
        count -= first;
        *growth = (struct vt_growth){.first_step = kept[0],
                                     .last_step = kept[count - 1],
                                     .records = count,
                                     .bytes_per_step = slope(series, changes, kept, count)};
        repeats = goes_on(series, changes, kept, count, to, at_once);
    }
    free(records);
    return repeats;
}

/* ---- Classes ---- */

/* Adds up changes, so that each step has the bytes from there on. Returns how many steps there are. */
static size_t sum_changes(struct vt_leak_change *series, size_t count)
{
    size_t kept = 0;
    vt_sort(series, count, sizeof *series, compare_changes);
    for (size_t i = 0; i < count; i++) {
        uint64_t before = kept > 0 ? series[kept - 1].bytes : 0;
        if (kept > 0 && series[kept - 1].step == series[i].step)
            series[kept - 1].bytes += series[i].bytes;
        else
            series[kept++] = (struct vt_leak_change){series[i].step, before + series[i].bytes};
    }
    return kept;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void begin_series(struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    vt_reserve(&finder->series, &finder->series_capacity, (size_t) class->count * 2 + 1,
               sizeof *finder->series);
    finder->series_count = 0;
}

static void add_change(struct vt_leak_finder *finder, uint32_t step, uint64_t bytes)
{
    finder->series[finder->series_count++] = (struct vt_leak_change){step, bytes};
}

/* Sets finder->series: bytes of a class alive at each step's end. `lasting`: without what the next step
 * frees. */
static void make_series(struct vt_leak_finder *finder, const struct vt_leak_class *class, bool lasting)
{
    begin_series(finder, class);
    for (uint32_t i = 0; i < class->count; i++) {
        const struct vt_allocation *allocation =
            &finder->replay->allocations[finder->order[class->first + i]];
        uint32_t made = vt_leak_step_of(finder, allocation->alloc_event);
        uint32_t freed = vt_leak_step_of(finder, allocation->free_event);
        if (lasting && freed <= larger(made, 1) + 1) /* step 0 ends where the first one begins */
            continue;
        add_change(finder, made, allocation->bytes);
        if (freed <= finder->step_count) /* an earlier request may free it */
            add_change(finder, larger(made, freed), 0 - allocation->bytes);
    }
    finder->series_count = sum_changes(finder->series, finder->series_count);
}

/* The same where requests overlap, of what they do not use up: each block that was made by an event, from the
 * request on that made it. Returns false if it leaves out what is still in work when the trace ends. */
static bool make_request_series(struct vt_leak_finder *finder, const struct vt_leak_class *class, uint32_t by)
{
    bool whole = true;
    begin_series(finder, class);
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        const struct vt_allocation *allocation = &finder->replay->allocations[index];
        uint32_t made = vt_leak_step_of(finder, allocation->alloc_event);
        uint32_t gone = vt_leak_gone_at(&finder->requests, index);
        bool in_work = gone == VT_NEVER && !vt_leak_is_judged(finder, index);
        whole &= !in_work;
        if (in_work || allocation->alloc_event > by || finder->requests.passing[index] == VT_LEAK_USED_UP)
            continue;
        add_change(finder, made, allocation->bytes);
        if (gone <= finder->last_border)
            add_change(finder, larger(made, vt_span_at(finder->attribution, gone)->step),
                       0 - allocation->bytes);
    }
    finder->series_count = sum_changes(finder->series, finder->series_count);
    return whole;
}

/* The same by turn: what requests left that are over. */
static void make_turn_series(struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    const struct vt_leak_requests *requests = &finder->requests;
    begin_series(finder, class);
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i], turn = vt_leak_turn_of(requests, index);
        uint32_t gone = vt_leak_gone_at(requests, index);
        if (turn == VT_NEVER || requests->passing[index] != VT_LEAK_NOT_PASSING)
            continue;
        add_change(finder, turn, finder->replay->allocations[index].bytes);
        if (gone <= finder->last_border)
            add_change(finder, larger(turn, vt_leak_turn_at(requests, gone)),
                       0 - finder->replay->allocations[index].bytes);
    }
    finder->series_count = sum_changes(finder->series, finder->series_count);
}

/* Whether what is left grows by turn too, and is as much as ever at the end. */
static bool remains(struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    const uint32_t to = (uint32_t)finder->requests.end_count;
    make_turn_series(finder, class);
    const struct vt_leak_change *series = finder->series;
    uint32_t *records = vt_allocate_zeros(finder->series_count + 1, sizeof *records);
    uint32_t count = list_records(series, finder->series_count, 1, to, records);
    uint64_t most = count > 0 ? bytes_at(series, finder->series_count, records[count - 1]) : 0;
    free(records);
    return count >= VT_LEAK_BIRTHS && bytes_at(series, finder->series_count, to) >= most - most / 10;
}

/* The bytes per step, with what requests in work make later. If that is not known, by turn: in the order in
 * which requests end, those that keep nothing are not where they were. */
static uint64_t measure_requests(struct vt_leak_finder *finder, const struct vt_leak_class *class,
                                 const struct vt_growth *growth)
{
    uint32_t from = growth->first_step, to = finder->step_count - 1;
    if (!make_request_series(finder, class, VT_NEVER)) {
        make_turn_series(finder, class);
        from = 1;
        to = (uint32_t)finder->requests.end_count;
    }
    uint32_t *records = vt_allocate_zeros(finder->series_count + 1, sizeof *records);
    uint32_t count = list_records(finder->series, finder->series_count, from, to, records);
    uint64_t bytes = count < VT_LEAK_BIRTHS ? growth->bytes_per_step
                                            : slope(finder->series, finder->series_count, records, count);
    free(records);
    return bytes;
}

/* In the order in which requests begin, what is kept can be more than there ever was at one time: one request
 * has yet to make it while another has it already. In the order in which they end it can be less, and then
 * grow. So both have to. */
static bool grows_by_request(struct vt_leak_finder *finder, const struct vt_leak_class *class,
                             struct vt_growth *growth)
{
    bool whole = make_request_series(finder, class, finder->last_border);
    uint32_t to = whole ? finder->step_count - 1 : finder->requests.last_over;
    if (!vt_growth_repeats(finder->series, finder->series_count, class->first_birth, to, finder->at_one_time,
                           growth) ||
        !remains(finder, class))
        return false;
    growth->bytes_per_step = measure_requests(finder, class, growth);
    return true;
}

static bool grows_by_step(struct vt_leak_finder *finder, const struct vt_leak_class *class,
                          struct vt_growth *growth)
{
    /* Such blocks are not shown between whole chains: there a step would seem to have less than others. */
    make_series(finder, class, finder->trace->gap_count > 0);
    return vt_growth_repeats(finder->series, finder->series_count, class->first_birth, finder->step_count - 1,
                             finder->at_one_time, growth);
}

/* ---- Growth that ends ---- */

/* Counts one more of a key; returns how many there are. */
static uint32_t count_one(struct vt_index *index, uint64_t key)
{
    uint32_t count = vt_index_get(index, key);
    count = count == VT_INDEX_NONE ? 1 : count + 1;
    vt_index_put(index, key, count);
    return count;
}

/* By size, how many blocks may come of those that exist once for each parameter. Parameters that themselves
 * come with the steps bound nothing. */
static void count_parameters(const struct vt_leak_finder *finder, struct vt_index *sizes)
{
    const struct vt_replay *replay = finder->replay;

    for (size_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        if (finder->attribution->labels[i].category != VT_CATEGORY_PARAMETER ||
            finder->class_of[i] == VT_NO_CLASS || finder->classes[finder->class_of[i]].grows ||
            block->device_index != finder->device_index || !vt_alive_at(block, finder->last_border))
            continue;
        count_one(sizes, block->bytes);
    }
}

static bool is_one_per_parameter(uint8_t category)
{
    return category == VT_CATEGORY_GRADIENT || category == VT_CATEGORY_OPTIMIZER_STATE;
}

#define MODULE_PARAMETERS 4u /* of one size, that one module has at most: queries, keys, values, outputs */

/* Whose it is: the hash of its owner's name or of its module, 0 = not known. */
static uint64_t whose(const struct vt_label *label, uint32_t *limit)
{
    const char *name = label->owner ? label->owner : label->module;
    *limit = label->owner ? 1 : MODULE_PARAMETERS;
    return name ? vt_hash_bytes(name, strlen(name), VT_HASH_START) | 1 : 0;
}

/* Gradients and optimizer state of parameters that come late (experts, layers that thaw) end when each has
 * its own. What exceeds one for each parameter of that size, or of that name, does not end so. */
static bool is_bounded(const struct vt_leak_finder *finder, const struct vt_leak_class *class,
                       const struct vt_index *parameters)
{
    struct vt_index sizes = {0}, names = {0};
    bool bounded = true;
    for (uint32_t i = 0; i < class->count && bounded; i++) {
        uint32_t index = finder->order[class->first + i], most = 0, limit;
        const struct vt_label *label = &finder->attribution->labels[index];
        uint64_t name = whose(label, &limit);
        uint64_t bytes = finder->replay->allocations[index].bytes;
        if (!vt_leak_is_kept(finder, index))
            continue;
        uint32_t count = count_one(&sizes, bytes),
                 of_name = name ? count_one(&names, vt_mix(name, bytes)) : 0;
        for (uint64_t as = bytes / 2; as <= bytes * 2 && as;
             as *= 2) { /* in half, the same or double precision */
            uint32_t parameter_count = vt_index_get(parameters, as);
            most += parameter_count == VT_INDEX_NONE ? 0 : parameter_count;
        }
        bounded = is_one_per_parameter(label->category) && count <= most && of_name <= limit;
    }
    vt_index_free(&names);
    vt_index_free(&sizes);
    return bounded;
}

/* A framework's workspaces come one for each stream, and it hands out the same streams in turn: they end with
 * the last of these. What a library took from the driver itself has no such end. */
static bool ends_with_streams(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    return class->kind == VT_ALLOCATION_BLOCK && class->births < VT_TORCH_STREAMS + VT_LEAK_BIRTHS &&
           finder->attribution->labels[finder->order[class->first]].category == VT_CATEGORY_WORKSPACE;
}

static void drop_bounded(struct vt_leak_finder *finder)
{
    struct vt_index parameters = {0};
    count_parameters(finder, &parameters);
    for (size_t i = 0; i < finder->class_count; i++) {
        struct vt_leak_class *class = &finder->classes[i];
        if (!class->grows || (!ends_with_streams(finder, class) && !is_bounded(finder, class, &parameters)))
            continue;
        class->grows = false;
        finder->bounded_per_step += class->bytes_per_step;
    }
    vt_index_free(&parameters);
}

void vt_leak_growth_find(struct vt_leak_finder *finder)
{
    for (size_t i = 0; i < finder->class_count; i++) {
        struct vt_leak_class *class = &finder->classes[i];
        struct vt_growth growth = {0};
        if (class->births < VT_LEAK_REGULAR_BIRTHS)
            continue;
        class->grows =
            (finder->requests.step_of ? grows_by_request : grows_by_step)(finder, class, &growth) &&
            growth.bytes_per_step * (growth.last_step - growth.first_step) >= VT_TORCH_ROUND_BYTES;
        if (!class->grows)
            continue;
        class->since = growth.first_step;
        class->bytes_per_step = growth.bytes_per_step;
    }
    drop_bounded(finder);
}

/* ---- One tensor that grows: predictions = torch.cat([predictions, new]) ---- */

/* Whether each allocation of the class was alive when the next one was made, and was freed in that step: no
 * step keeps anything, yet the live bytes grow. */
static bool is_rebuilt(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    const struct vt_replay *replay = finder->replay;
    const uint32_t *order = finder->order + class->first;
    uint32_t handed_on = 0;
    if (class->kind != VT_ALLOCATION_BLOCK || class->count < VT_LEAK_STEPS || class->group != VT_NO_CLASS ||
        class->grows)
        return false;
    const struct vt_stack_traits *site =
        vt_stack_traits_of(finder->attribution, replay->allocations[order[0]].stack_id);
    if (!(site->traits & VT_TRAIT(CONCATENATION)))
        return false; /* another operator makes larger tensors of a larger batch */
    for (uint32_t i = 0; i + 1 < class->count; i++) {
        const struct vt_allocation *block = &replay->allocations[order[i]];
        const struct vt_allocation *next = &replay->allocations[order[i + 1]];
        handed_on += block->free_event > next->alloc_event &&
                     vt_leak_step_of(finder, block->free_event) == vt_leak_step_of(finder, next->alloc_event);
    }
    return handed_on + 1 + class->count / 10 >= class->count;
}

/* Large blocks may be up to this much larger than their request: a tensor that grows was no larger than its
 * block in a later step. */
static void drop_rounding(struct vt_leak_finder *finder)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = finder->series_count; i-- > 0;) {
        struct vt_leak_change *change = &finder->series[i];
        if (change->step >= finder->step_count)
            continue;
        if (change->bytes > VT_TORCH_SMALL_BYTES && change->bytes > least &&
            change->bytes - least <= VT_TORCH_SMALL_BYTES)
            change->bytes = least;
        least = change->bytes;
    }
}

static void add_rebuilt(struct vt_leak_finder *finder, struct vt_leak_class *class,
                        const struct vt_growth *growth)
{
    const struct vt_allocation *last = NULL;
    uint64_t bytes = 0, blocks = 0;
    for (uint32_t i = 0; i < class->count; i++) {
        uint32_t index = finder->order[class->first + i];
        if (!vt_leak_is_kept(finder, index))
            continue;
        last = &finder->replay->allocations[index];
        bytes += last->bytes;
        blocks++;
    }
    if (!last || vt_label_of(finder->attribution, last)->category == VT_CATEGORY_KV_CACHE)
        return;
    /* Without backward passes steps are calls, and what grows with each may be a context that ends. */
    struct vt_leak *leak = vt_leak_add(finder, finder->ran.count > 0 ? VT_LEAK_TENSOR : VT_LEAK_GROWING);
    const struct vt_label *label = vt_label_of(finder->attribution, last);
    class->stack_id = leak->stack_id = last->stack_id;
    class->bytes_per_step = growth->bytes_per_step;
    leak->rebuilt = true;
    leak->owner = label->owner;
    leak->module = label->module;
    leak->first_step = growth->first_step;
    leak->last_step = growth->last_step;
    vt_leak_add_lines(finder, leak, last->stack_id, VT_LEAK_LINES);
    snprintf(leak->why, sizeof leak->why,
             "In %" PRIu32 " steps a tensor was extended with torch.cat, growing each time.",
             growth->records);
    vt_leak_add_part(finder, leak, class, bytes, blocks, label->category);
}

void vt_leak_rebuilt_find(struct vt_leak_finder *finder)
{
    for (size_t i = 0; i < finder->class_count; i++) {
        struct vt_leak_class *class = &finder->classes[i];
        struct vt_growth growth;
        if (!is_rebuilt(finder, class))
            continue;
        uint32_t from =
            vt_leak_step_of(finder, finder->replay->allocations[finder->order[class->first]].alloc_event);
        make_series(finder, class, false);
        drop_rounding(finder);
        if (vt_growth_repeats(finder->series, finder->series_count, from ? from : 1, finder->step_count - 1,
                              finder->at_one_time, &growth))
            add_rebuilt(finder, class, &growth);
    }
}
