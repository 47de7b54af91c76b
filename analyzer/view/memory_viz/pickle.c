/* Opcodes as documented in Python's pickletools. */
#include "view/memory_viz/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define BATCH 1000u /* items, as in Python */

enum opcode {
    PROTO = 0x80,
    TUPLE2 = 0x86,
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    LONG1 = 0x8a,
    SHORT_BINUNICODE = 0x8c,
    MEMOIZE = 0x94,
    MARK = '(',
    STOP = '.',
    EMPTY_LIST = ']',
    EMPTY_DICT = '}',
    APPENDS = 'e',
    SETITEMS = 'u',
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    BINUNICODE = 'X',
    BINGET = 'h',
    LONG_BINGET = 'j',
};

static void put(struct vt_pickle *pickle, unsigned byte)
{
    putc_unlocked((int)byte, pickle->out);
}

/* The number's lowest bytes, the lowest first. */
static void put_bytes(struct vt_pickle *pickle, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        put(pickle, (unsigned)(number >> (8 * i)) & 0xffu);
}

void vt_pickle_begin(struct vt_pickle *pickle, FILE *out)
{
    *pickle = (struct vt_pickle){.out = out};
    put(pickle, PROTO);
    put(pickle, 4);
}

int vt_pickle_end(struct vt_pickle *pickle)
{
    put(pickle, STOP);
    vt_index_free(&pickle->index);
    free(pickle->texts);
    return pickle->error;
}

void vt_pickle_number(struct vt_pickle *pickle, uint64_t number)
{
    unsigned bytes = 0;

    if (number <= 0xff) {
        put(pickle, BININT1);
        put_bytes(pickle, number, 1);
    } else if (number <= 0xffff) {
        put(pickle, BININT2);
        put_bytes(pickle, number, 2);
    } else if (number <= INT32_MAX) {
        put(pickle, BININT);
        put_bytes(pickle, number, 4);
    } else { /* signed: the highest bit stays clear */
        while (bytes < 8 && number >> (8 * bytes))
            bytes++;
        if (number >> (8 * bytes - 1) & 1)
            bytes++;
        put(pickle, LONG1);
        put(pickle, bytes);
        put_bytes(pickle, number, bytes < 8 ? bytes : 8);
        if (bytes > 8)
            put(pickle, 0);
    }
}

void vt_pickle_bool(struct vt_pickle *pickle, bool value)
{
    put(pickle, value ? NEWTRUE : NEWFALSE);
}

/* ---- Text ---- */

static size_t repaired_bytes(const char *text)
{
    size_t total = 0;
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) != 0; text += bytes)
        total += code == VT_REPLACEMENT ? sizeof VT_REPLACEMENT_TEXT - 1 : bytes;
    return total;
}

static void put_repaired(struct vt_pickle *pickle, const char *text)
{
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) != 0; text += bytes)
        if (code == VT_REPLACEMENT)
            fputs_unlocked(VT_REPLACEMENT_TEXT, pickle->out);
        else
            fwrite_unlocked(text, 1, bytes, pickle->out);
}

/* A text that was not written before: its number is kept. */
static void keep_text(struct vt_pickle *pickle, const char *text, uint64_t key)
{
    struct vt_pickle_text item = {text, vt_pickle_remember(pickle)};

    if (VT_APPEND(pickle->texts, pickle->text_count, pickle->text_capacity, item) ||
        vt_index_put(&pickle->index, key, (uint32_t)pickle->text_count - 1))
        pickle->error = -ENOMEM;
}

void vt_pickle_text(struct vt_pickle *pickle, const char *text)
{
    uint64_t key = vt_hash_bytes(text, strlen(text), VT_HASH_START);
    uint32_t known;
    size_t bytes;

    for (; (known = vt_index_get(&pickle->index, key)) != VT_INDEX_NONE; key++)
        if (!strcmp(pickle->texts[known].text, text)) {
            vt_pickle_again(pickle, pickle->texts[known].number);
            return;
        }
    bytes = repaired_bytes(text);
    put(pickle, bytes <= 0xff ? SHORT_BINUNICODE : BINUNICODE);
    put_bytes(pickle, bytes, bytes <= 0xff ? 1 : 4);
    put_repaired(pickle, text);
    keep_text(pickle, text, key);
}

/* ---- Containers ---- */

void vt_pickle_pair(struct vt_pickle *pickle)
{
    put(pickle, TUPLE2);
}

void vt_pickle_list(struct vt_pickle *pickle)
{
    put(pickle, EMPTY_LIST);
}

void vt_pickle_dict(struct vt_pickle *pickle)
{
    put(pickle, EMPTY_DICT);
    put(pickle, MARK);
}

void vt_pickle_dict_end(struct vt_pickle *pickle)
{
    put(pickle, SETITEMS);
}

void vt_pickle_item(struct vt_pickle *pickle, struct vt_pickle_batch *batch)
{
    if (batch->count && batch->count % BATCH == 0)
        put(pickle, APPENDS);
    if (batch->count++ % BATCH == 0)
        put(pickle, MARK);
}

void vt_pickle_list_end(struct vt_pickle *pickle, const struct vt_pickle_batch *batch)
{
    if (batch->count)
        put(pickle, APPENDS);
}

/* ---- References ---- */

uint32_t vt_pickle_remember(struct vt_pickle *pickle)
{
    put(pickle, MEMOIZE);
    return pickle->remembered++;
}

void vt_pickle_again(struct vt_pickle *pickle, uint32_t number)
{
    put(pickle, number <= 0xff ? BINGET : LONG_BINGET);
    put_bytes(pickle, number, number <= 0xff ? 1 : 4);
}
