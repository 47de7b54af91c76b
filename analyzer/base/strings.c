/* Finds texts by their hash. */
#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/allocate.h"

/* True if the text is there; else *hash is where to put it. */
static bool find_number(const struct vt_strings *strings, const char *text, size_t bytes, uint64_t *hash,
                        uint32_t *number)
{
    for (*hash = vt_hash_bytes(text, bytes, VT_HASH_START);; ++*hash) {
        *number = vt_index_get(&strings->index, *hash);
        if (*number == VT_INDEX_NONE)
            return false;
        const char *known = strings->items[*number];
        if (!strncmp(known, text, bytes) && !known[bytes])
            return true;
    }
}

uint32_t vt_strings_find_bytes(struct vt_strings *strings, const char *text, size_t bytes, bool *is_new)
{
    uint64_t hash;
    uint32_t number;
    if (is_new)
        *is_new = false;
    if (find_number(strings, text, bytes, &hash, &number))
        return number;
    /* A name that was cut to fit may end within a letter. */
    const char *clean = vt_arena_text(&strings->arena, text, bytes);
    if (find_number(strings, clean, strlen(clean), &hash, &number))
        return number;
    if (strings->count >= VT_INDEX_NONE)
        vt_end_out_of_memory();
    number = (uint32_t)strings->count;
    VT_APPEND(strings->items, strings->count, strings->capacity, clean);
    vt_index_put(&strings->index, hash, number);
    if (is_new)
        *is_new = true;
    return number;
}

uint32_t vt_strings_find(struct vt_strings *strings, const char *text, bool *is_new)
{
    return vt_strings_find_bytes(strings, text ? text : "", text ? strlen(text) : 0, is_new);
}

void vt_strings_free(struct vt_strings *strings)
{
    vt_arena_free(&strings->arena);
    vt_index_free(&strings->index);
    free(strings->items);
    *strings = (struct vt_strings){.items = NULL};
}
