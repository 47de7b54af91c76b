#include "view/html/rows.h"

#include <stdlib.h>
#include <string.h>

uint32_t vt_rows_find(struct vt_rows *rows, const uint64_t *words)
{
    uint32_t number;
    size_t bytes = rows->width * sizeof *words;
    uint64_t hash = vt_hash_bytes(words, bytes, VT_HASH_START);

    for (;; hash++) {
        number = vt_index_get(&rows->by_content, hash);
        if (number == VT_INDEX_NONE)
            break;
        if (!memcmp(vt_row_words(rows, number), words, bytes))
            return number;
    }
    number = (uint32_t)rows->count;
    vt_reserve(&rows->words, &rows->capacity, rows->count + 1, bytes);
    vt_index_put(&rows->by_content, hash, number);
    memcpy(rows->words + rows->width * rows->count++, words, bytes);
    return number;
}

void vt_rows_free(struct vt_rows *rows)
{
    vt_index_free(&rows->by_content);
    free(rows->words);
    *rows = (struct vt_rows){.width = rows->width};
}
