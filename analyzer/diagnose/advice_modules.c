/* Advice on modules: activations in place, and checkpoints. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/module_names.h"
#include "diagnose/adviser.h"

/* ---- In place ---- */

#define NEAR 256u /* allocations back, to find an operator's input */

/* What the operator read: the latest live block of its size that forward made. */
static const struct vt_allocation *input_of(const struct vt_adviser *adviser, uint32_t index)
{
    const struct vt_allocation *output = &adviser->replay->allocations[index];
    const struct vt_label *labels = adviser->attribution->labels;

    for (uint32_t i = index; i-- > 0 && index - i < NEAR;) {
        const struct vt_allocation *block = &adviser->replay->allocations[i];

        if (adviser->passes[block->alloc_event] != adviser->passes[output->alloc_event])
            return NULL;
        if (block->bytes == output->bytes && vt_whatif_counts(&adviser->whatif, block) &&
            vt_alive_at(block, output->alloc_event) && labels[i].phase == labels[index].phase &&
            (labels[i].category == VT_CATEGORY_ACTIVATION || labels[i].category == VT_CATEGORY_TEMPORARY))
            return block;
    }
    return NULL;
}

int vt_advise_in_place(struct vt_adviser *adviser)
{
    uint64_t most = 0;
    uint32_t stack_id = 0;
    char bytes[24], what[192];

    for (uint32_t i = 0; i < adviser->replay->allocation_count; i++) {
        const struct vt_allocation *output = &adviser->replay->allocations[i], *input;
        uint8_t phase = adviser->attribution->labels[i].phase;

        if (!vt_whatif_counts(&adviser->whatif, output) ||
            (phase != VT_PHASE_FORWARD && phase != VT_PHASE_EVAL) ||
            !(vt_site_of(adviser->attribution, output->stack_id)->traits & VT_TRAIT(IN_PLACE)))
            continue;
        input = input_of(adviser, i);
        if (!input)
            continue;
        vt_whatif_less(&adviser->whatif, output->alloc_event,
                       input->free_event < output->free_event ? input->free_event : output->free_event,
                       output->bytes);
        if (output->bytes > most) {
            most = output->bytes;
            stack_id = output->stack_id;
        }
    }
    if (most == 0)
        return 0;
    snprintf(what, sizeof what, "%s in place (inplace=True)", vt_operator_of(adviser->attribution, stack_id));
    vt_advise(
        adviser, VT_ADVICE_IN_PLACE, vt_whatif_saves(&adviser->whatif), stack_id, "", what,
        "The operator keeps its output (up to %s) beside an input of the same size. One of them is enough if "
        "nothing else needs the input",
        vt_format_bytes(most, bytes));
    return 0;
}

/* ---- Checkpoints ---- */

#define FAMILIES 48
#define SHOWN 3 /* families that are advised */

/* Modules that differ in their numbers only: "layers.*.mlp". */
struct family {
    char pattern[160];
    uint64_t kept; /* at the peak */
    uint64_t saves;
    uint64_t members;
};

/* A kept activation of one member of a family. */
struct kept {
    uint64_t member; /* hash of its name */
    uint32_t pass, allocation;
};

/* Kept by forward for its backward. */
static bool is_kept(const struct vt_adviser *adviser, const struct vt_allocation *block)
{
    const struct vt_label *label = vt_label_of(adviser->attribution, block);

    return label->category == VT_CATEGORY_ACTIVATION && label->phase == VT_PHASE_FORWARD && label->module &&
           vt_whatif_counts(&adviser->whatif, block) && block->free_event != VT_NEVER &&
           adviser->passes[block->free_event] > adviser->passes[block->alloc_event];
}

/* Adds a block to the families of its module and of all those around it. */
static void count_families(struct family *families, size_t *count, const struct vt_allocation *block,
                           const char *name)
{
    struct vt_module_level level = {0};

    while (vt_module_next(name, &level)) {
        char pattern[sizeof families->pattern];
        size_t k = 0;

        if (!vt_module_pattern(name, (size_t)(level.begin + level.bytes - name), pattern, sizeof pattern))
            continue;
        while (k < *count && strcmp(families[k].pattern, pattern))
            k++;
        if (k == FAMILIES)
            continue;
        if (k == *count)
            strcpy(families[(*count)++].pattern, pattern);
        families[k].kept += block->bytes;
    }
}

static int compare_kept(const void *left, const void *right)
{
    const struct kept *a = left, *b = right;

    return 4 * vt_order(a->member, b->member) + 2 * vt_order(a->pass, b->pass) +
           vt_order(a->allocation, b->allocation);
}

/* What a member passed to the next one, which keeps it as its input: the last block that it made, except
 * small by-products of its last operator (a norm's statistics). */
static size_t output_of(const struct vt_adviser *adviser, const struct kept *kept, size_t count)
{
    const struct vt_allocation *allocations = adviser->replay->allocations;
    uint64_t largest = 0;
    size_t i = count;

    for (size_t k = 0; k < count; k++)
        largest =
            allocations[kept[k].allocation].bytes > largest ? allocations[kept[k].allocation].bytes : largest;
    while (i-- > 1)
        if (allocations[kept[i].allocation].bytes * 16 >= largest)
            break;
    return i;
}

/* One member in one step: all but its output is freed when its forward ends, and made again when its backward
 * begins. */
static void drop_member(struct vt_adviser *adviser, const struct kept *kept, size_t count, uint32_t backward)
{
    const struct vt_allocation *allocations = adviser->replay->allocations;
    uint32_t made = 0, needed = backward;
    size_t output = output_of(adviser, kept, count);

    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = &allocations[kept[i].allocation];

        made = block->alloc_event > made ? block->alloc_event : made;
        needed = block->free_event < needed ? block->free_event : needed;
    }
    for (size_t i = 0; i < count; i++)
        if (i != output)
            vt_whatif_less(&adviser->whatif, made + 1, needed, allocations[kept[i].allocation].bytes);
}

/* Event of the first block that backward makes for a member in a pass, by the forward operators it belongs
 * to. */
static uint32_t first_backward(const struct vt_adviser *adviser, const struct kept *made, size_t count,
                               uint64_t member, uint32_t pass)
{
    struct kept key = {.member = member, .pass = pass};
    size_t first = vt_lower_bound(made, count, sizeof *made, &key, compare_kept);

    return first < count && made[first].member == member && made[first].pass == pass
               ? adviser->replay->allocations[made[first].allocation].alloc_event
               : VT_NEVER;
}

static int weigh_family(struct vt_adviser *adviser, struct family *family)
{
    const struct vt_replay *replay = adviser->replay;
    struct kept *kept = calloc(replay->allocation_count + 1, sizeof *kept);
    struct kept *made = calloc(replay->allocation_count + 1, sizeof *made);
    size_t count = 0, made_count = 0;
    uint64_t member = 0;

    for (uint32_t i = 0; kept && made && i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        const struct vt_label *label = &adviser->attribution->labels[i];
        size_t bytes = label->module ? vt_module_match(family->pattern, label->module) : 0;
        struct kept item = {.member = bytes ? vt_hash_bytes(label->module, bytes, VT_HASH_START) : 0,
                            .allocation = i};

        item.pass = adviser->passes[block->alloc_event];
        if (bytes && is_kept(adviser, block))
            kept[count++] = item;
        else if (bytes && label->phase == VT_PHASE_BACKWARD && label->forward_stack_id)
            made[made_count++] = item;
    }
    if (!kept || !made) {
        free(kept);
        free(made);
        return -ENOMEM;
    }
    qsort(kept, count, sizeof *kept, compare_kept);
    qsort(made, made_count, sizeof *made, compare_kept);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && kept[end].member == kept[i].member && kept[end].pass == kept[i].pass;
             end++)
            ;
        family->members += !i || kept[i].member != member;
        member = kept[i].member;
        drop_member(adviser, kept + i, end - i,
                    first_backward(adviser, made, made_count, kept[i].member, kept[i].pass + 1));
    }
    family->saves = vt_whatif_saves(&adviser->whatif);
    free(kept);
    free(made);
    return 0;
}

static int by_saves(const void *left, const void *right)
{
    const struct family *a = left, *b = right;

    return a->saves != b->saves ? vt_order(b->saves, a->saves) : strcmp(a->pattern, b->pattern);
}

static void advise_family(struct vt_adviser *adviser, const struct family *family)
{
    bool several = family->members > 1;
    char bytes[24], what[192];
    snprintf(what, sizeof what, "checkpoint %s%.140s", several ? "each " : "", family->pattern);
    vt_advise(adviser, VT_ADVICE_CHECKPOINT, family->saves, 0, family->pattern, what,
              "%llu module%s %s for backward at the peak. With checkpoints only their inputs stay; backward "
              "computes the rest again, one module at a time, by a second forward pass",
              (unsigned long long)family->members, several ? "s keep" : " keeps",
              vt_format_bytes(family->kept, bytes));
}

int vt_advise_checkpoint(struct vt_adviser *adviser)
{
    struct family families[FAMILIES];
    size_t count = 0, shown = 0;
    int error = 0;

    memset(families, 0, sizeof families);
    for (size_t i = 0; i < adviser->replay->allocation_count; i++) {
        const struct vt_allocation *block = &adviser->replay->allocations[i];

        if (is_kept(adviser, block) && vt_alive_at(block, adviser->whatif.peak_event))
            count_families(families, &count, block, adviser->attribution->labels[i].module);
    }
    for (size_t i = 0; !error && i < count; i++)
        if (families[i].kept * 100 >= adviser->whatif.peak_bytes)
            error = weigh_family(adviser, &families[i]);
    qsort(families, count, sizeof *families, by_saves);
    for (size_t i = 0; !error && i < count && shown < SHOWN; i++) {
        bool inside = false;

        for (size_t k = 0; k < i; k++)
            inside |= vt_module_is_inside(families[k].pattern, families[i].pattern) ||
                      vt_module_is_inside(families[i].pattern, families[k].pattern);
        if (inside)
            continue;
        advise_family(adviser, &families[i]);
        shown++;
    }
    return error;
}
