/* Parameters, buffers and optimizer state have names of their own, and no other holder is reported for them:
 * who keeps them is the part of the model that all these names lie in. */
#include "findings/leaks/owners.h"

#include "base/allocate.h"
#include "findings/leaks/finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERIES 3u /* things in one place that are shown as a series */

struct names {
    const char **items; /* of the leak's blocks that have one */
    size_t count, capacity;
    uint64_t of_category[VT_CATEGORY_COUNT];
    uint32_t latest_event; /* of an inspection that saw one of them; 0 = none did */
};

/* Most of them: a leak has a few blocks that were made in another way. */
static bool is_most(size_t some, size_t all)
{
    return some * 3 >= all * 2;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* "heads.3.weight" of "heads.3.weight · exp_avg". */
static size_t path_bytes(const char *name)
{
    const char *role = strstr(name, " · ");
    return role ? (size_t)(role - name) : strlen(name);
}

/* The bytes of the next component, with its dot; 0 = the name ends with it. */
static size_t component_bytes(const char *name, size_t from)
{
    size_t end = path_bytes(name);
    const char *dot = from < end ? memchr(name + from, '.', end - from) : NULL;
    return dot ? (size_t)(dot - name) + 1 - from : 0;
}

/* Among names that begin with the same `from` bytes: how many of each next component there are. Sets *most
 * to the first of those that most names have, and returns their count; *kinds: how many components there
 * are. */
static size_t count_next(const struct names *names, size_t from, const char *prefix, const char **most,
                         size_t *kinds)
{
    size_t best = 0, run = 0;
    const char *last = NULL;
    *kinds = 0;
    for (size_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (strncmp(name, prefix, from) != 0)
            continue;
        size_t bytes = component_bytes(name, from);
        bool same = last && bytes && component_bytes(last, from) == bytes &&
                    strncmp(name + from, last + from, bytes) == 0;
        *kinds += !same;
        run = same ? run + 1 : 1;
        if (bytes && run > best) {
            best = run;
            *most = name;
        }
        last = name;
    }
    return best;
}

/* The length of the longest path that most names lie in, with the dot at its end, 0 = none; `name` is one of
 * these names, `inside` their count. */
static size_t common_path(const struct names *names, const char **name, size_t *inside)
{
    size_t bytes = 0, kinds, next;
    const char *most = *name = names->items[0];
    *inside = names->count;
    while (is_most(next = count_next(names, bytes, *name, &most, &kinds), names->count)) {
        *name = most;
        *inside = next;
        bytes += component_bytes(most, bytes);
    }
    return kinds >= SERIES ? bytes : 0;
}

static void add_name(const struct vt_leak_finder *finder, struct vt_leak *leak, uint32_t allocation,
                     struct names *names)
{
    const struct vt_label *label = &finder->attribution->labels[allocation];
    const struct vt_inspection *seen = vt_inspection_of(finder->attribution, allocation);
    if (!label->owner)
        return;
    leak->first_owner = leak->first_owner ? leak->first_owner : label->owner;
    leak->last_owner = label->owner;
    leak->owned_blocks++;
    if (!seen)
        return;
    names->of_category[label->category]++;
    names->latest_event = seen->event_index > names->latest_event ? seen->event_index : names->latest_event;
    VT_APPEND(names->items, names->count, names->capacity, label->owner);
}

/* What keeps that many tensors of one kind; NULL = the kind has no word. */
static const char *holder_text(const struct vt_leak_finder *finder, uint8_t category, const char *path,
                               size_t bytes, size_t count)
{
    static const char *const words[VT_CATEGORY_COUNT] = {[VT_CATEGORY_PARAMETER] = "parameters",
                                                         [VT_CATEGORY_BUFFER] = "buffers",
                                                         [VT_CATEGORY_GRADIENT] = "gradients",
                                                         [VT_CATEGORY_OPTIMIZER_STATE] = "optimizer state"};
    char text[512];
    bool state = category == VT_CATEGORY_OPTIMIZER_STATE;
    if (!words[category] || (bytes == 0 && !state))
        return NULL;
    snprintf(text, sizeof text, "%s%s%.*s%s, %zu items", words[category],
             bytes == 0 ? ""
             : state    ? " of "
                        : " ",
             (int)bytes, path, bytes ? "*" : "", count);
    return vt_places_text(finder->places, text);
}

/* Names that each step uses again do not say who keeps what had them before. */
static void name_holder(const struct vt_leak_finder *finder, struct vt_leak *leak, struct names *names)
{
    size_t distinct = 0;
    uint8_t category = 0;
    char way[512];
    const char *path;
    if (names->count < SERIES || names->count * 2 < leak->owned_blocks)
        return;
    qsort(names->items, names->count, sizeof *names->items, compare_names);
    for (size_t i = 0; i < names->count; i++)
        distinct += i == 0 || strcmp(names->items[i], names->items[i - 1]) != 0;
    for (uint8_t c = 0; c < VT_CATEGORY_COUNT; c++)
        category = names->of_category[c] > names->of_category[category] ? c : category;
    if (!is_most(distinct, names->count) || !is_most(names->of_category[category], names->count))
        return;
    size_t inside, bytes = common_path(names, &path, &inside);
    snprintf(way, sizeof way, "%.200s … %.200s", leak->first_owner, leak->last_owner);
    leak->holder = (struct vt_leak_holder){
        .name = holder_text(finder, category, path, bytes, inside),
        .kind = "name",
        .way = vt_places_text(finder->places, way),
        .dtype = "",
        .shape = "",
        .node = "",
        .step = vt_span_at(finder->attribution, names->latest_event)->step,
    };
    if (!leak->holder.way)
        leak->holder.name = NULL;
    if (leak->holder.name)
        leak->first_owner = leak->last_owner = NULL;
}

void vt_leak_owners_find(struct vt_leak_finder *finder)
{
    struct names *names = vt_allocate_zeros(finder->leaks->count + 1, sizeof *names);
    for (uint32_t i = 0; i < finder->replay->allocation_count; i++) {
        uint32_t number = vt_leak_of(finder, i);
        struct vt_leak *leak = number == VT_NO_CLASS ? NULL : &finder->leaks->items[number];
        if (leak && !leak->holder.name && vt_leak_is_kept(finder, i) &&
            vt_leak_step_of(finder, finder->replay->allocations[i].alloc_event) >= leak->first_step)
            add_name(finder, leak, i, &names[number]);
    }
    for (size_t i = 0; i < finder->leaks->count; i++) {
        struct vt_leak *leak = &finder->leaks->items[i];
        if (leak->first_owner && strcmp(leak->first_owner, leak->last_owner) == 0)
            leak->first_owner = leak->last_owner = NULL; /* a name that each step uses anew */
        else
            name_holder(finder, leak, &names[i]);
        free(names[i].items);
    }
    free(names);
}
