/* Folds modules that differ only in the numbers of their names to one row. Their class must be the same where
 * it is known, so that the parts of a Sequential are not folded. In a path of classes the number
 * distinguishes instances of one class under one parent. */
#include "report/modules.h"

#include "base/module_names.h"
#include "report/group_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "base/sort.h"

#define HOLE '\x01' /* of a number, in patterns */

/* One module's name, parsed. */
struct entry {
    const struct vt_group *group;
    char *pattern;
    unsigned numbers[VT_MODULE_NUMBERS];
    size_t number_count;
    unsigned kept; /* the last number if it distinguishes roles (Linear#1 and Linear#2 of one block) */
};

/* True if a level's number distinguishes instances: it is a whole dotted level, or follows '#'. */
static bool has_number(const struct vt_module_level *level)
{
    return level->digits && level->digits <= 8 &&
           (level->has_mark || (level->digits == level->bytes && !level->is_class));
}

static void take_apart(const struct vt_group *group, struct entry *entry)
{
    const char *at = group->name;
    char *out = vt_allocate(strlen(group->name) + 1);
    struct vt_module_level level = {0};

    *entry = (struct entry){.group = group, .pattern = out};
    while (vt_module_next(group->name, &level)) {
        const char *end = level.begin + level.bytes, *number = end - level.digits;
        bool counts = has_number(&level) && entry->number_count < VT_MODULE_NUMBERS;

        for (; at < (counts ? number : end); at++)
            *out++ = *at == HOLE ? '?' : *at;
        if (!counts)
            continue;
        entry->numbers[entry->number_count++] = (unsigned)strtoul(number, NULL, 10);
        *out++ = HOLE;
        at = end;
    }
    strcpy(out, at);
}

static int compare_patterns(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;

    return strcmp(a->pattern, b->pattern);
}

static const char *class_of(const struct vt_group *group)
{
    return group->dtype_shape ? group->dtype_shape : group->class_name ? group->class_name : "";
}

static int compare_entries(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    int order = strcmp(a->pattern, b->pattern);

    order = order ? order : strcmp(class_of(a->group), class_of(b->group));
    return order ? order : vt_order(a->kept, b->kept);
}

static int compare_with_pattern(const void *entry, const void *pattern)
{
    return strcmp(((const struct entry *)entry)->pattern, pattern);
}

/* True if other modules lie in those of this pattern. `entries` are in order of their patterns. */
static bool is_container(const struct entry *entries, size_t count, const char *pattern)
{
    size_t first, length = strlen(pattern);
    char *inner = vt_allocate(length + sizeof VT_MODULE_CLASSES);
    bool found;

    memcpy(inner, pattern, length);
    memcpy(inner + length, VT_MODULE_CLASSES, sizeof VT_MODULE_CLASSES);
    first = vt_lower_bound(entries, count, sizeof *entries, inner, compare_with_pattern);
    found = first < count && !strncmp(entries[first].pattern, inner, length + sizeof VT_MODULE_CLASSES - 1);
    free(inner);
    return found;
}

static void note_number(struct vt_module_numbers *numbers, unsigned number)
{
    numbers->low = !numbers->any || number < numbers->low ? number : numbers->low;
    numbers->high = !numbers->any || number > numbers->high ? number : numbers->high;
    numbers->any = true;
    if (number < 64 * VT_MODULE_WORDS)
        numbers->seen[number / 64] |= UINT64_C(1) << number % 64;
}

static void add_member(struct vt_module_family *family, const struct entry *entry)
{
    const struct vt_group *group = entry->group;

    for (size_t i = 0; i < entry->number_count; i++)
        note_number(&family->numbers[i], entry->numbers[i]);
    family->low_bytes =
        !family->members || group->bytes < family->low_bytes ? group->bytes : family->low_bytes;
    family->high_bytes = group->bytes > family->high_bytes ? group->bytes : family->high_bytes;
    family->same = family->low_bytes == family->high_bytes;
    family->bytes += group->bytes;
    family->members++;
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        family->categories[c] += group->categories[c];
}

/* Adds entries of one family. Entries that hold nothing are members only if all do. */
static void add_all(struct vt_module_family *family, const struct entry *entries, size_t count)
{
    bool any = false;

    for (size_t i = 0; i < count; i++)
        any |= entries[i].group->bytes > 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t temporary = entries[i].group->temporary_peak_bytes;

        if (entries[i].group->bytes || !any)
            add_member(family, &entries[i]);
        if (temporary > family->temporary_peak_bytes)
            family->temporary_peak_bytes = temporary;
    }
}

/* Equal for families with the same number of modules, each with the same bytes. */
static uint64_t alike_key(const struct vt_module_family *family)
{
    uint64_t hash = vt_hash_bytes(family->pattern, strlen(family->pattern) + 1, VT_HASH_START);

    hash = vt_hash_bytes(family->class_name, strlen(family->class_name) + 1, hash);
    hash = vt_hash_bytes(&family->members, sizeof family->members, hash);
    return vt_hash_bytes(&family->low_bytes, sizeof family->low_bytes, hash);
}

static bool is_alike(const struct vt_module_family *a, const struct vt_module_family *b)
{
    return !strcmp(a->pattern, b->pattern) && !strcmp(a->class_name, b->class_name) && a->same && b->same &&
           a->members == b->members && a->low_bytes == b->low_bytes;
}

static void merge_family(struct vt_module_family *into, const struct vt_module_family *family)
{
    for (size_t i = 0; i < VT_MODULE_NUMBERS; i++) {
        if (!family->numbers[i].any)
            continue;
        note_number(&into->numbers[i], family->numbers[i].low);
        note_number(&into->numbers[i], family->numbers[i].high);
        for (size_t w = 0; w < VT_MODULE_WORDS; w++)
            into->numbers[i].seen[w] |= family->numbers[i].seen[w];
    }
    if (family->temporary_peak_bytes > into->temporary_peak_bytes)
        into->temporary_peak_bytes = family->temporary_peak_bytes;
    into->bytes += family->bytes;
    into->merged += family->members;
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        into->categories[c] += family->categories[c];
}

/* Families of one pattern that differ in the last number only. */
static void merge_alike(struct vt_module_families *families)
{
    struct vt_index first = {0}; /* alike_key → the first of them */
    size_t kept = 0;

    for (size_t f = 0; f < families->count; f++) {
        struct vt_module_family *family = &families->items[f];
        uint64_t key = alike_key(family);
        uint32_t same = family->same ? vt_index_get(&first, key) : VT_INDEX_NONE;

        if (same != VT_INDEX_NONE && is_alike(&families->items[same], family)) {
            merge_family(&families->items[same], family);
            free(family->pattern);
            continue;
        }
        if (family->same && same == VT_INDEX_NONE)
            vt_index_put(&first, key, (uint32_t)kept);
        families->items[kept++] = *family;
    }
    families->count = kept;
    for (size_t f = 0; f < kept; f++)
        families->items[f].members += families->items[f].merged;
    vt_index_free(&first);
}

/* "3", "0–31", "1,3", or "1…7" where some are missing. */
static void put_numbers(FILE *stream, const struct vt_module_numbers *numbers)
{
    unsigned seen = 0;
    bool first = true;

    for (unsigned n = numbers->low; n <= numbers->high && n < 64 * VT_MODULE_WORDS; n++)
        seen += numbers->seen[n / 64] >> n % 64 & 1;
    if (numbers->low == numbers->high) {
        fprintf(stream, "%u", numbers->low);
    } else if (numbers->high >= 64 * VT_MODULE_WORDS || seen == numbers->high - numbers->low + 1) {
        fprintf(stream, "%u–%u", numbers->low, numbers->high);
    } else if (seen > 3) {
        fprintf(stream, "%u…%u", numbers->low, numbers->high);
    } else {
        for (unsigned n = numbers->low; n <= numbers->high; n++) {
            if (!(numbers->seen[n / 64] >> n % 64 & 1))
                continue;
            fprintf(stream, first ? "%u" : ",%u", n);
            first = false;
        }
    }
}

static char *make_name(const struct vt_module_family *family)
{
    char *name = NULL;
    size_t bytes, number = 0;
    FILE *stream = vt_memory_stream(&name, &bytes);

    for (const char *c = family->pattern; *c; c++) {
        if (*c == HOLE && number < VT_MODULE_NUMBERS)
            put_numbers(stream, &family->numbers[number++]);
        else
            fputc(*c, stream);
    }
    fclose(stream);
    return name;
}

static int compare_families(const void *left, const void *right)
{
    const struct vt_module_family *a = left, *b = right;

    return a->bytes != b->bytes ? vt_order(b->bytes, a->bytes) : strcmp(a->name, b->name);
}

static void make_families(struct entry *entries, size_t count, bool roles,
                          struct vt_module_families *families)
{
    for (size_t i = 0; roles && i < count; i++) {
        const char *pattern = entries[i].pattern;
        size_t length = strlen(pattern);

        if (length > 1 && pattern[length - 1] == HOLE && pattern[length - 2] == '#' &&
            !is_container(entries, count, pattern))
            entries[i].kept = entries[i].numbers[entries[i].number_count - 1];
    }
    vt_sort(entries, count, sizeof *entries, compare_entries);
    for (size_t i = 0, end; i < count; i = end) {
        struct vt_module_family *family = &families->items[families->count];

        for (end = i + 1; end < count && !compare_entries(&entries[i], &entries[end]);)
            end++;
        family->class_name = class_of(entries[i].group);
        family->pattern = vt_copy_text(entries[i].pattern);
        families->count++;
        add_all(family, &entries[i], end - i);
    }
    merge_alike(families);
    for (size_t f = 0; f < families->count; f++)
        families->items[f].name = make_name(&families->items[f]);
    vt_sort(families->items, families->count, sizeof *families->items, compare_families);
}

static void fold_groups(const struct vt_groups *modules, bool roles, struct vt_module_families *families)
{
    struct entry *entries = vt_allocate_zeros(modules->count + 1, sizeof *entries);
    size_t count = 0;

    *families =
        (struct vt_module_families){.items = vt_allocate_zeros(modules->count + 1, sizeof *families->items)};
    for (size_t i = 0; i < modules->count; i++)
        if (modules->items[i].name[0])
            take_apart(&modules->items[i], &entries[count++]);
    vt_sort(entries, count, sizeof *entries, compare_patterns);
    make_families(entries, count, roles, families);
    for (size_t i = 0; i < count; i++)
        free(entries[i].pattern);
    free(entries);
}

void vt_fold_modules(const struct vt_groups *modules, struct vt_module_families *families)
{
    fold_groups(modules, true, families);
}

void vt_module_families_free(struct vt_module_families *families)
{
    for (size_t i = 0; i < families->count; i++) {
        free(families->items[i].pattern);
        free(families->items[i].name);
    }
    free(families->items);
    *families = (struct vt_module_families){0};
}

void vt_fold_places(const struct vt_groups *modules, unsigned category, struct vt_module_families *families)
{
    struct vt_groups places = {0};
    struct vt_group_table table = {.groups = &places};

    for (size_t i = 0; i < modules->count; i++) {
        const char *name = modules->items[i].name;
        uint64_t bytes = modules->items[i].categories[category];
        struct vt_module_level level = {0};

        while (bytes && name[0] && vt_module_next(name, &level))
            vt_group_named(&table, name, (size_t)(level.begin + level.bytes - name))->bytes += bytes;
    }
    vt_index_free(&table.index);
    fold_groups(&places, false, families);
    vt_groups_free(&places);
}

/* Each module counts in the first of its containers that is not opened. `tensor_bytes`: what a part has
 * itself. */
static void sum_parts(const struct vt_groups *modules, const struct vt_index *opened, struct vt_groups *parts)
{
    struct vt_group_table table = {.groups = parts};

    for (size_t i = 0; i < modules->count; i++) {
        const struct vt_group *module = &modules->items[i];
        struct vt_module_level level = {0};
        struct vt_group *part;
        size_t bytes = 0;

        if (!module->bytes || !module->name[0])
            continue;
        while (vt_module_next(module->name, &level)) {
            bytes = (size_t)(level.begin + level.bytes - module->name);
            if (vt_index_get(opened, vt_hash_bytes(module->name, bytes, VT_HASH_START)) == VT_INDEX_NONE)
                break;
        }
        part = vt_group_named(&table, module->name, bytes);
        part->bytes += module->bytes;
        part->tensor_bytes += module->name[bytes] ? 0 : module->bytes;
        for (unsigned c = 0; c < VT_CATEGORY_COUNT; c++)
            part->categories[c] += module->categories[c];
    }
    vt_index_free(&table.index);
}

static bool is_numbered(const char *name)
{
    struct vt_module_level level = {0};
    bool numbered = false;

    while (vt_module_next(name, &level))
        numbered = has_number(&level);
    return numbered;
}

/* The largest of which most lies in its parts; NULL = none. */
static const struct vt_group *largest_container(const struct vt_groups *parts)
{
    const struct vt_group *largest = NULL;

    for (size_t i = 0; i < parts->count; i++) {
        const struct vt_group *part = &parts->items[i];

        if (part->tensor_bytes * 2 < part->bytes && !is_numbered(part->name) &&
            (!largest || part->bytes > largest->bytes))
            largest = part;
    }
    return largest;
}

void vt_fold_parts(const struct vt_groups *modules, size_t rows, struct vt_module_families *families)
{
    const struct vt_group *container;
    struct vt_index opened = {0};
    struct vt_groups parts = {0};

    sum_parts(modules, &opened, &parts);
    while (parts.count <= rows && (container = largest_container(&parts))) {
        vt_index_put(&opened, vt_hash_bytes(container->name, strlen(container->name), VT_HASH_START), 1);
        vt_groups_free(&parts);
        sum_parts(modules, &opened, &parts);
    }
    vt_index_free(&opened);
    fold_groups(&parts, false, families);
    vt_groups_free(&parts);
}

bool vt_belongs_to_no_module(unsigned category)
{
    return category == VT_CATEGORY_PARAMETER || category == VT_CATEGORY_BUFFER ||
           category == VT_CATEGORY_GRADIENT || category == VT_CATEGORY_OPTIMIZER_STATE ||
           category == VT_CATEGORY_CHECKPOINT_COPY || category == VT_CATEGORY_WORKSPACE ||
           category == VT_CATEGORY_COMMUNICATION || category == VT_CATEGORY_OTHER;
}
