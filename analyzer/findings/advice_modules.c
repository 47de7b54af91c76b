/* Advice on modules: activations in place, and checkpoints. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/module_names.h"
#include "base/sort.h"
#include "findings/adviser.h"

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

void vt_advise_in_place(struct vt_adviser *adviser)
{
    uint64_t most = 0;
    uint32_t stack_id = 0;
    char bytes[24];

    for (uint32_t i = 0; i < adviser->replay->allocation_count; i++) {
        const struct vt_allocation *output = &adviser->replay->allocations[i], *input;
        uint8_t phase = adviser->attribution->labels[i].phase;

        if (!vt_whatif_counts(&adviser->whatif, output) ||
            (phase != VT_PHASE_FORWARD && phase != VT_PHASE_EVAL) ||
            !(vt_stack_traits_of(adviser->attribution, output->stack_id)->traits & VT_TRAIT(IN_PLACE)))
            continue;
        input = input_of(adviser, i);
        if (!input)
            continue;
        vt_whatif_less(&adviser->whatif, output, output->alloc_event,
                       input->free_event < output->free_event ? input->free_event : output->free_event,
                       output->bytes);
        if (output->bytes > most) {
            most = output->bytes;
            stack_id = output->stack_id;
        }
    }
    if (most == 0)
        return;
    vt_advise(adviser, VT_ADVICE_IN_PLACE, vt_whatif_saves(&adviser->whatif),
              (struct vt_advice_subject){.stack_id = stack_id,
                                         .subject = vt_operator_of(adviser->attribution, stack_id)},
              &vt_remedy_in_place,
              "The operator allocates an output of the same size as its input (up to %s). Use it in place if "
              "the input is not needed afterwards",
              vt_format_bytes(most, bytes));
}

/* ---- Checkpoints ---- */

#define FAMILIES 48
#define SHOWN 3            /* families that are advised */
#define WORTH_PART 20      /* of the peak: less is not worth a second forward pass */
#define REPEATED_SHARE 0.7 /* of what one module around them saves: they are advised */

/* Modules that differ in their numbers only: "layers.*.mlp". */
struct family {
    char pattern[160];
    uint64_t kept; /* at the peak */
    uint64_t saves;
    uint64_t members;
    struct vt_savings savings; /* owned */
};

/* What forward keeps, or backward makes, of a module. */
struct piece {
    uint32_t allocation, pass;
    uint32_t module; /* number of its name */
    bool kept;
};

/* All pieces, in order, and the names of their modules. */
struct pieces {
    struct piece *items;
    size_t count;
    const char **names;
    size_t name_count, name_capacity;
};

/* Those of one kind in one family, by member, then in order. */
struct share {
    const struct piece **items;
    size_t *begin; /* by member, and one more */
};

/* Kept by forward for its backward. */
static bool is_kept(const struct vt_adviser *adviser, const struct vt_allocation *block)
{
    const struct vt_label *label = vt_label_of(adviser->attribution, block);

    return !label->is_half_copy && label->category == VT_CATEGORY_ACTIVATION &&
           label->phase == VT_PHASE_FORWARD && label->module && vt_whatif_counts(&adviser->whatif, block) &&
           block->free_event != VT_NEVER &&
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

/* Made by one call of one operator: the same line of Python, on the same object. */
static bool is_of_same_call(const struct vt_adviser *adviser, uint32_t left_id, uint32_t right_id)
{
    const struct vt_trace *trace = adviser->replay->trace;
    const struct vt_trace_stack *left = &trace->stacks[left_id], *right = &trace->stacks[right_id];
    const char *a = vt_operator_of(adviser->attribution, left_id),
               *b = vt_operator_of(adviser->attribution, right_id);

    return a && b && strcmp(a, b) == 0 && left->python_count == right->python_count &&
           left->python_count > 0 &&
           vt_trace_line_key(trace, &left->python[0]) == vt_trace_line_key(trace, &right->python[0]) &&
           left->python[0].self_address == right->python[0].self_address;
}

/* What a member passed to the next one, which keeps it as its input: the largest that its last operator made;
 * the others are by-products (a norm's statistics, a mask). */
static size_t output_of(const struct vt_adviser *adviser, const struct piece **kept, size_t count)
{
    const struct vt_allocation *allocations = adviser->replay->allocations;
    const uint32_t last = allocations[kept[count - 1]->allocation].stack_id;
    size_t output = count - 1;

    for (size_t i = count - 1;
         i-- > 0 && is_of_same_call(adviser, allocations[kept[i]->allocation].stack_id, last);)
        if (allocations[kept[i]->allocation].bytes > allocations[kept[output]->allocation].bytes)
            output = i;
    return output;
}

/* One member in one step: all but its output is freed when its forward ends, and made again when its backward
 * begins. */
static void drop_member(struct vt_adviser *adviser, const struct piece **kept, size_t count,
                        uint32_t backward)
{
    const struct vt_allocation *allocations = adviser->replay->allocations;
    uint32_t made = 0, needed = backward;
    size_t output = output_of(adviser, kept, count);

    for (size_t i = 0; i < count; i++) {
        const struct vt_allocation *block = &allocations[kept[i]->allocation];

        made = block->alloc_event > made ? block->alloc_event : made;
        needed = block->free_event < needed ? block->free_event : needed;
    }
    for (size_t i = 0; i < count; i++)
        if (i != output)
            vt_whatif_less(&adviser->whatif, &allocations[kept[i]->allocation], made + 1, needed,
                           allocations[kept[i]->allocation].bytes);
}

static void list_pieces(const struct vt_adviser *adviser, struct pieces *pieces)
{
    const struct vt_replay *replay = adviser->replay;
    struct vt_index known = {0}; /* name, by its address → number */

    pieces->items = vt_allocate((replay->allocation_count + 1) * sizeof *pieces->items);
    for (uint32_t i = 0; i < replay->allocation_count; i++) {
        const struct vt_allocation *block = &replay->allocations[i];
        const struct vt_label *label = &adviser->attribution->labels[i];
        struct piece piece = {.allocation = i, .pass = adviser->passes[block->alloc_event]};

        if (!label->module)
            continue;
        piece.kept = is_kept(adviser, block);
        if (!piece.kept && (label->phase != VT_PHASE_BACKWARD || !label->forward_stack_id))
            continue;
        piece.module = vt_index_add(&known, (uintptr_t)label->module, (uint32_t)pieces->name_count);
        if (piece.module == pieces->name_count)
            VT_APPEND(pieces->names, pieces->name_count, pieces->name_capacity, label->module);
        pieces->items[pieces->count++] = piece;
    }
    vt_index_free(&known);
}

/* Sets `members`, by name: its member of the family plus one, 0 = none. Returns how many members. */
static size_t number_members(const struct pieces *pieces, const struct family *family, uint32_t *members)
{
    struct vt_index known = {0}; /* hash of its name → member plus one */
    size_t count = 0;

    for (size_t i = 0; i < pieces->name_count; i++) {
        size_t bytes = vt_module_match(family->pattern, pieces->names[i]);

        members[i] = bytes ? vt_index_add(&known, vt_hash_bytes(pieces->names[i], bytes, VT_HASH_START),
                                          (uint32_t)count + 1)
                           : 0;
        count += members[i] > count;
    }
    vt_index_free(&known);
    return count;
}

static struct share gather_share(const struct pieces *pieces, const uint32_t *members, size_t member_count,
                                 bool kept)
{
    struct share share = {.items = vt_allocate((pieces->count + 1) * sizeof(const struct piece *)),
                          .begin = vt_allocate_zeros(member_count + 2, sizeof *share.begin)};

    for (size_t i = 0; i < pieces->count; i++)
        if (pieces->items[i].kept == kept && members[pieces->items[i].module])
            share.begin[members[pieces->items[i].module] + 1]++;
    for (size_t i = 1; i <= member_count + 1; i++)
        share.begin[i] += share.begin[i - 1];
    for (size_t i = 0; i < pieces->count; i++)
        if (pieces->items[i].kept == kept && members[pieces->items[i].module])
            share.items[share.begin[members[pieces->items[i].module]]++] = &pieces->items[i];
    return share;
}

static int compare_pass(const void *item, const void *pass)
{
    return vt_order((*(const struct piece *const *)item)->pass, *(const uint32_t *)pass);
}

/* Event of the first block that backward makes for a member in a pass, by the forward operators it belongs
 * to. */
static uint32_t first_backward(const struct vt_adviser *adviser, const struct share *made, size_t member,
                               uint32_t pass)
{
    const struct piece **items = made->items + made->begin[member];
    size_t count = made->begin[member + 1] - made->begin[member];
    size_t first = vt_lower_bound(items, count, sizeof *items, &pass, compare_pass);

    return first < count && items[first]->pass == pass
               ? adviser->replay->allocations[items[first]->allocation].alloc_event
               : VT_NEVER;
}

static void drop_members(struct vt_adviser *adviser, const struct share *kept, const struct share *made,
                         size_t member_count, struct family *family)
{
    for (size_t member = 0; member < member_count; member++) {
        family->members += kept->begin[member + 1] > kept->begin[member];
        for (size_t i = kept->begin[member], end; i < kept->begin[member + 1]; i = end) {
            for (end = i + 1; end < kept->begin[member + 1] && kept->items[end]->pass == kept->items[i]->pass;
                 end++)
                ;
            drop_member(adviser, kept->items + i, end - i,
                        first_backward(adviser, made, member, kept->items[i]->pass + 1));
        }
    }
}

static void weigh_family(struct vt_adviser *adviser, const struct pieces *pieces, struct family *family)
{
    uint32_t *members = vt_allocate((pieces->name_count + 1) * sizeof *members);
    size_t member_count = number_members(pieces, family, members);
    struct share kept = gather_share(pieces, members, member_count, true),
                 made = gather_share(pieces, members, member_count, false);

    drop_members(adviser, &kept, &made, member_count, family);
    family->saves = vt_whatif_saves(&adviser->whatif);
    family->savings = vt_whatif_take(&adviser->whatif);
    free(members);
    free(kept.items);
    free(kept.begin);
    free(made.items);
    free(made.begin);
}

static int by_saves(const void *left, const void *right)
{
    const struct family *a = left, *b = right;

    return a->saves != b->saves ? vt_order(b->saves, a->saves) : strcmp(a->pattern, b->pattern);
}

static void advise_family(struct vt_adviser *adviser, struct family *family)
{
    adviser->whatif.savings = family->savings;
    family->savings = (struct vt_savings){0};
    char bytes[24], subject[200];
    int used = snprintf(subject, sizeof subject, "%.160s", family->pattern);
    if (family->members > 1)
        snprintf(subject + used, sizeof subject - (size_t)used, " (%llu modules)",
                 (unsigned long long)family->members);
    vt_advise(
        adviser, VT_ADVICE_CHECKPOINT, family->saves,
        (struct vt_advice_subject){.module = family->pattern, .subject = subject}, &vt_remedy_checkpoint,
        "%s is kept for backward at the peak. With activation checkpointing only the inputs stay, at the "
        "cost of a second forward pass",
        vt_format_bytes(family->kept, bytes));
}

/* One module around repeated ones is not worth a checkpoint of its own: in backward all inside it is there at
 * once. Nor can all of them be called: some only hold others. */
static void prefer_repeated(struct family *families, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count && families[i].members == 1; k++)
            if (families[k].members > 1 && vt_module_is_inside(families[k].pattern, families[i].pattern) &&
                (double)families[k].saves >= REPEATED_SHARE * (double)families[i].saves)
                families[i].saves = 0;
}

void vt_advise_checkpoint(struct vt_adviser *adviser)
{
    struct family families[FAMILIES];
    struct pieces pieces = {0};
    size_t count = 0, shown = 0;

    list_pieces(adviser, &pieces);
    memset(families, 0, sizeof families);
    for (size_t i = 0; i < adviser->replay->allocation_count; i++) {
        const struct vt_allocation *block = &adviser->replay->allocations[i];

        if (is_kept(adviser, block) && vt_alive_at(block, adviser->whatif.peak_event))
            count_families(families, &count, block, adviser->attribution->labels[i].module);
    }
    for (size_t i = 0; i < count; i++)
        if (families[i].kept * 100 >= adviser->whatif.peak_bytes)
            weigh_family(adviser, &pieces, &families[i]);
    free(pieces.items);
    free(pieces.names);
    prefer_repeated(families, count);
    vt_sort(families, count, sizeof *families, by_saves);
    for (size_t i = 0; i < count && shown < SHOWN; i++) {
        bool inside = false;

        for (size_t k = 0; k < i; k++)
            inside |= vt_module_is_inside(families[k].pattern, families[i].pattern) ||
                      vt_module_is_inside(families[i].pattern, families[k].pattern);
        if (inside || families[i].saves < adviser->whatif.peak_bytes / WORTH_PART)
            continue;
        advise_family(adviser, &families[i]);
        shown++;
    }
    for (size_t i = 0; i < count; i++)
        vt_savings_free(&families[i].savings);
}
