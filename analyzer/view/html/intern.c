#include "view/html/intern.h"

#include <stdlib.h>
#include <string.h>

/* ---- Texts ---- */

/* The number of a text by its content; it is added if it is new. */
static int find_text(struct vt_texts *texts, const char *text, uint32_t *number)
{
    uint64_t hash = vt_hash_bytes(text, strlen(text), VT_HASH_START);

    for (;; hash++) {
        *number = vt_index_get(&texts->by_content, hash);
        if (*number == VT_INDEX_NONE)
            break;
        if (!strcmp(texts->items[*number], text))
            return 0;
    }
    *number = (uint32_t)texts->count;
    if (VT_APPEND(texts->items, texts->count, texts->capacity, text))
        return -ENOMEM;
    return vt_index_put(&texts->by_content, hash, *number);
}

uint32_t vt_text_number(struct vt_texts *texts, const char *text)
{
    uint64_t address = (uint64_t)(uintptr_t)text;
    uint32_t number = VT_INDEX_NONE;

    if (!texts->count && find_text(texts, "", &number))
        texts->failed = true;
    if (!text || !text[0] || texts->failed)
        return 0;
    number = vt_index_get(&texts->by_address, address);
    if (number != VT_INDEX_NONE)
        return number;
    if (!find_text(texts, text, &number) && !vt_index_put(&texts->by_address, address, number))
        return number;
    texts->failed = true;
    return 0;
}

void vt_texts_free(struct vt_texts *texts)
{
    vt_index_free(&texts->by_address);
    vt_index_free(&texts->by_content);
    free(texts->items);
    *texts = (struct vt_texts){0};
}

/* ---- Rows of words ---- */

uint32_t vt_row_number(struct vt_word_rows *rows, const uint64_t *words)
{
    size_t bytes = rows->width * sizeof *words;
    uint64_t hash = vt_hash_bytes(words, bytes, VT_HASH_START);
    uint32_t number;

    for (;; hash++) {
        number = vt_index_get(&rows->by_content, hash);
        if (number == VT_INDEX_NONE)
            break;
        if (!memcmp(vt_row_words(rows, number), words, bytes))
            return number;
    }
    number = (uint32_t)rows->count;
    if (rows->failed || vt_reserve(&rows->words, &rows->capacity, rows->count + 1, bytes) ||
        vt_index_put(&rows->by_content, hash, number)) {
        rows->failed = true;
        return 0;
    }
    memcpy(rows->words + rows->width * rows->count++, words, bytes);
    return number;
}

void vt_word_rows_free(struct vt_word_rows *rows)
{
    vt_index_free(&rows->by_content);
    free(rows->words);
    *rows = (struct vt_word_rows){.width = rows->width};
}
