/* Opcodes as documented in Python's pickletools. */
#include "view/memory_viz/pickle.h"

#include <stdlib.h>
#include <string.h>

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
    vt_strings_free(&pickle->texts);
    free(pickle->text_numbers);
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

void vt_pickle_text(struct vt_pickle *pickle, const char *text)
{
    uint32_t number;
    bool is_new;
    size_t bytes;

    if (pickle->error) /* a text may be known, and its number not */
        return;
    if (vt_strings_find(&pickle->texts, text, &number, &is_new)) {
        pickle->error = -ENOMEM;
        return;
    }
    if (!is_new) {
        vt_pickle_again(pickle, pickle->text_numbers[number]);
        return;
    }
    text = pickle->texts.items[number];
    bytes = strlen(text);
    put(pickle, bytes <= 0xff ? SHORT_BINUNICODE : BINUNICODE);
    put_bytes(pickle, bytes, bytes <= 0xff ? 1 : 4);
    fwrite_unlocked(text, 1, bytes, pickle->out);
    if (VT_APPEND(pickle->text_numbers, pickle->text_count, pickle->text_capacity,
                  vt_pickle_remember(pickle)))
        pickle->error = -ENOMEM;
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
