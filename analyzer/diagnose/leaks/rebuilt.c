/* One tensor that each step makes anew, out of itself and more: predictions = torch.cat([predictions, new]).
 * What it was goes, so that no step keeps anything; what is alive grows all the same. */
#include "diagnose/leaks/private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Whether each allocation of the class was still there when the next one was made, and went soon after.
 * Without backward passes steps are calls, and a cache of keys and values grows with each: none is told
 * there. */
static bool is_rebuilt(const struct vt_leak_finder *finder, const struct vt_leak_class *class)
{
    const struct vt_replay *replay = finder->replay;
    const uint32_t *order = finder->order + class->first;
    uint32_t handed_on = 0;
    if (finder->ran.count == 0 || class->kind != VT_ALLOCATION_BLOCK || class->count < VT_LEAK_STEPS ||
        class->group != VT_NO_CLASS || class->grows)
        return false;
    const struct vt_site *site = vt_site_of(finder->attribution, replay->allocations[order[0]].stack_id);
    if (!(site->traits & VT_TRAIT(CONCATENATION)))
        return false; /* what is made larger than before by another operator is of a larger batch */
    for (uint32_t i = 0; i + 1 < class->count; i++) {
        const struct vt_allocation *block = &replay->allocations[order[i]];
        const struct vt_allocation *next = &replay->allocations[order[i + 1]];
        handed_on += block->free_event > next->alloc_event &&
                     vt_leak_free_step(finder, block) == vt_label_of(finder->attribution, next)->step;
    }
    return handed_on + 1 + class->count / 10 >= class->count;
}

static int add(struct vt_leak_finder *finder, struct vt_leak_class *class, const struct vt_growth *growth)
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
    struct vt_leak *leak = last ? vt_leak_add(finder, VT_LEAK_TENSOR) : NULL;
    if (!leak)
        return last ? -ENOMEM : 0;
    const struct vt_label *label = vt_label_of(finder->attribution, last);
    class->group = (uint32_t)(leak - finder->leaks->items);
    class->stack_id = leak->stack_id = last->stack_id;
    class->bytes_per_step = growth->rise / (growth->last_step - growth->first_step);
    leak->rebuilt = true;
    leak->owner = label->owner;
    leak->module = label->module;
    leak->first_step = growth->first_step;
    leak->last_step = growth->last_step;
    vt_leak_add_lines(finder, leak, last->stack_id, VT_LEAK_LINES);
    snprintf(leak->why, sizeof leak->why,
             "One tensor is made anew, out of itself and more (aten::cat): in %" PRIu32
             " steps it was larger than ever before.",
             growth->records);
    return vt_leak_add_part(leak, class, bytes, blocks, label->category);
}

int vt_leak_rebuilt_find(struct vt_leak_finder *finder)
{
    int error = 0;
    for (size_t i = 0; i < finder->class_count && !error; i++) {
        struct vt_leak_class *class = &finder->classes[i];
        struct vt_growth growth;
        if (!is_rebuilt(finder, class))
            continue;
        uint32_t from = finder->attribution->labels[finder->order[class->first]].step;
        bool repeats = false;
        error = vt_leak_make_series(finder, class);
        if (!error)
            error = vt_growth_repeats(finder->series, finder->series_count, from ? from : 1,
                                      finder->step_count - 1, &growth, &repeats);
        if (!error && repeats)
            error = add(finder, class, &growth);
    }
    return error;
}
