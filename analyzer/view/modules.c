/* Modules that differ only in the numbers of their names, folded to one row. */
#include "view/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 4

/* "layers.3.mlp" → "layers.#.mlp" and 3. Only whole parts of the name count, and only the first few. */
static char *make_pattern(const char *name, unsigned numbers[NUMBERS], size_t *number_count)
{
    char *pattern = malloc(strlen(name) + 1), *end = pattern;

    *number_count = 0;
    while (pattern && *name) {
        size_t part = strcspn(name, "."), digits = strspn(name, "0123456789");

        if (part && digits == part && part < 9 && *number_count < NUMBERS) {
            numbers[(*number_count)++] = (unsigned)strtoul(name, NULL, 10);
            *end++ = '#';
        } else {
            memcpy(end, name, part);
            end += part;
        }
        name += part;
        if (*name == '.')
            *end++ = *name++;
    }
    if (pattern)
        *end = '\0';
    return pattern;
}

static char *make_name(const struct vt_module_family *family)
{
    char *name = NULL;
    size_t bytes, number = 0;
    FILE *stream = open_memstream(&name, &bytes);

    if (!stream)
        return NULL;
    for (const char *c = family->pattern; *c; c++) {
        if (*c != '#' || number >= NUMBERS)
            fputc(*c, stream);
        else if (family->low[number] == family->high[number])
            fprintf(stream, "%u", family->low[number++]);
        else
            fprintf(stream, "%u–%u", family->low[number], family->high[number]), number++;
    }
    if (fclose(stream)) {
        free(name);
        return NULL;
    }
    return name;
}

static void add(struct vt_module_family *family, const struct vt_group *group, const unsigned *numbers,
                size_t count)
{
    for (size_t i = 0; i < count; i++) {
        family->low[i] = !family->members || numbers[i] < family->low[i] ? numbers[i] : family->low[i];
        family->high[i] = !family->members || numbers[i] > family->high[i] ? numbers[i] : family->high[i];
    }
    if (!family->members) {
        family->first_bytes = group->bytes;
        family->same = true;
    }
    family->same &= group->bytes == family->first_bytes;
    family->bytes += group->bytes;
    family->members++;
    for (int c = 0; c < VT_CATEGORY_COUNT; c++)
        family->categories[c] += group->categories[c];
}

static int compare(const void *left, const void *right)
{
    const struct vt_module_family *a = left, *b = right;

    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return strcmp(a->pattern, b->pattern);
}

int vt_fold_modules(const struct vt_groups *modules, struct vt_module_families *families)
{
    *families = (struct vt_module_families){.items = calloc(modules->count + 1, sizeof *families->items)};
    if (!families->items)
        return -ENOMEM;
    for (size_t i = 0; i < modules->count; i++) {
        unsigned numbers[NUMBERS];
        size_t count, f = 0;
        char *pattern;

        if (!modules->items[i].name[0])
            continue;
        pattern = make_pattern(modules->items[i].name, numbers, &count);
        if (!pattern)
            return -ENOMEM;
        while (f < families->count && strcmp(families->items[f].pattern, pattern))
            f++;
        if (f == families->count)
            families->items[families->count++].pattern = pattern;
        else
            free(pattern);
        add(&families->items[f], &modules->items[i], numbers, count);
    }
    qsort(families->items, families->count, sizeof *families->items, compare);
    for (size_t f = 0; f < families->count; f++) {
        families->items[f].name = make_name(&families->items[f]);
        if (!families->items[f].name)
            return -ENOMEM;
    }
    return 0;
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
