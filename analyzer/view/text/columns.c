/* Text by terminal columns: measuring and cutting UTF-8. */
#include "view/text/print.h"

#include <stdlib.h>
#include <string.h>

/* East Asian wide letters and emoji take two columns, combining marks none. Not the whole Unicode table: a
 * rare letter may misalign one row. */
static int columns_of(uint32_t code)
{
    if ((code >= 0x300 && code <= 0x36f) || (code >= 0x200b && code <= 0x200d) ||
        (code >= 0xfe00 && code <= 0xfe0f))
        return 0;
    if ((code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
        (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
        (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60) ||
        (code >= 0x1f300 && code <= 0x1f64f) || (code >= 0x1f900 && code <= 0x1f9ff) ||
        (code >= 0x20000 && code <= 0x3fffd))
        return 2;
    return 1;
}

/* Bytes and columns of the next letter; a colour mark and its code are one letter of no columns. */
static size_t letter(const char *text, int *columns)
{
    uint32_t code;
    size_t bytes = vt_utf8_next(text, &code);

    if (code == VT_MARK && text[1]) {
        *columns = 0;
        return 2;
    }
    *columns = bytes ? columns_of(code) : 0;
    return bytes;
}

int vt_text_columns(const char *text)
{
    int sum = 0, columns;

    for (size_t bytes; (bytes = letter(text, &columns)) > 0; text += bytes)
        sum += columns;
    return sum;
}

/* Appends to `out` the letters of `text` that fit `columns` and returns its new end. */
static char *take(char *out, const char *text, int columns)
{
    int wide;

    for (size_t bytes; (bytes = letter(text, &wide)) > 0 && wide <= columns; text += bytes) {
        memcpy(out, text, bytes);
        out += bytes;
        columns -= wide;
    }
    return out;
}

/* The end of `text` that fits `columns`. */
static const char *tail(const char *text, int columns)
{
    int whole = vt_text_columns(text), wide;

    for (size_t bytes; whole > columns && (bytes = letter(text, &wide)) > 0; text += bytes)
        whole -= wide;
    return text;
}

/* Where the next part begins at or after `from`, with at least `least` columns left; NULL = nowhere. */
static const char *next_part(const char *text, const char *from, int least,
                             bool (*begins)(const char *, const char *))
{
    for (const char *at = from > text ? from : text + 1; *at; at++)
        if (begins(text, at))
            return vt_text_columns(at) >= least ? at : NULL;
    return NULL;
}

static bool begins_place(const char *text, const char *at)
{
    return *at == '/' || (at - text >= 3 && !strncmp(at - 3, " > ", 3));
}

static bool begins_word(const char *text, const char *at)
{
    (void)text;
    return (at[-1] == '.' && *at) || (at[-1] >= 'a' && at[-1] <= 'z' && *at >= 'A' && *at <= 'Z');
}

/* What stays of `text` after a cut at its start: whole parts if that leaves half of the room filled, else
 * whole words if that leaves most of it, else whatever fits. */
static const char *tail_parts(const char *text, int columns)
{
    const char *fits = tail(text, columns), *part = next_part(text, fits, columns / 2, begins_place);

    if (!part)
        part = next_part(text, fits, columns * 2 / 3, begins_word);
    return part ? part : fits;
}

char *vt_shorten(const char *text, int columns, enum vt_cut cut)
{
    static const char ellipsis[] = "…";
    size_t length = strlen(text);
    char *out = malloc(length + sizeof ellipsis), *end = out;
    int front;

    if (!out)
        return NULL;
    if (vt_text_columns(text) <= columns) {
        memcpy(out, text, length + 1);
    } else if (columns < 1) {
        *out = '\0';
    } else {
        front = cut == VT_CUT_END ? columns - 1 : cut == VT_CUT_MIDDLE ? (columns - 1) / 2 : 0;
        end = take(out, text, front);
        end = stpcpy(end, ellipsis);
        if (cut != VT_CUT_END)
            strcpy(end,
                   cut == VT_CUT_PARTS ? tail_parts(text, columns - 1) : tail(text, columns - 1 - front));
    }
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\t' || *c == '\r')
            *c = ' ';
    return out;
}
