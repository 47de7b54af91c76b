#include "view/text/print.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_stream.h"

const struct vt_view_style vt_plain_style = {.unicode = true, .width = INT_MAX, .by = -1};

/* ---- Categories ---- */

static const struct vt_category_style styles[VT_CATEGORY_COUNT] = {
    [VT_CATEGORY_PARAMETER] = {"░", ':', 33},      [VT_CATEGORY_BUFFER] = {"┊", 'b', 75},
    [VT_CATEGORY_GRADIENT] = {"▓", '%', 208},      [VT_CATEGORY_OPTIMIZER_STATE] = {"▒", '=', 134},
    [VT_CATEGORY_ACTIVATION] = {"█", '#', 71},     [VT_CATEGORY_INPUT] = {"▤", 'i', 44},
    [VT_CATEGORY_TEMPORARY] = {"▚", '~', 248},     [VT_CATEGORY_WORKSPACE] = {"·", '.', 220},
    [VT_CATEGORY_COMMUNICATION] = {"▥", 'c', 204}, [VT_CATEGORY_CONTEXT] = {" ", ' ', 243},
    [VT_CATEGORY_CACHED] = {" ", ' ', 243},        [VT_CATEGORY_HOST_PINNED] = {" ", ' ', 243},
    [VT_CATEGORY_KV_CACHE] = {"▦", 'k', 149},      [VT_CATEGORY_CHECKPOINT_COPY] = {"▧", '/', 137},
    [VT_CATEGORY_OTHER] = {"▢", 'o', 125},         [VT_CATEGORY_UNKNOWN] = {"?", '?', 253},
};

const struct vt_category_style *vt_category_style(unsigned category)
{
    return &styles[category < VT_CATEGORY_COUNT ? category : VT_CATEGORY_UNKNOWN];
}

void vt_put_fill(FILE *stream, const struct vt_view_style *style, unsigned category, unsigned shape)
{
    const struct vt_category_style *drawn = vt_category_style(shape);

    fprintf(stream, "\x0e%c", VT_MARK_INK + (int)category);
    if (!style->unicode)
        fputc(drawn->ascii_fill, stream);
    else
        fputs(style->colour && vt_category_style(category)->fill[0] != ' ' ? "█" : drawn->fill, stream);
    fputs(VT_RESET, stream);
}

/* ---- Terminal columns ---- */

/* East Asian wide letters and emoji take two columns, combining marks none. Not the whole Unicode table: a
 * rare letter can misalign a row. */
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
static size_t next_letter(const char *text, int *columns)
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

static int columns_until(const char *text, const char *end)
{
    int sum = 0, columns;

    for (size_t bytes; text != end && (bytes = next_letter(text, &columns)) > 0; text += bytes)
        sum += columns;
    return sum;
}

int vt_text_columns(const char *text)
{
    return columns_until(text, NULL);
}

/* Appends to `out` the letters of `text` that fit `columns` and returns its new end. */
static char *take_columns(char *out, const char *text, int columns)
{
    int wide;

    for (size_t bytes; (bytes = next_letter(text, &wide)) > 0 && wide <= columns; text += bytes) {
        memcpy(out, text, bytes);
        out += bytes;
        columns -= wide;
    }
    return out;
}

/* The end of `text` that fits `columns`. */
static const char *tail_of(const char *text, int columns)
{
    int whole = vt_text_columns(text), wide;

    for (size_t bytes; whole > columns && (bytes = next_letter(text, &wide)) > 0; text += bytes)
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

/* The end of `text` that fits: from the start of a part if that fills half of the columns, else from the
 * start of a word if that fills two thirds, else any. */
static const char *tail_parts(const char *text, int columns)
{
    const char *fits = tail_of(text, columns), *part = next_part(text, fits, columns / 2, begins_place);

    if (!part)
        part = next_part(text, fits, columns * 2 / 3, begins_word);
    return part ? part : fits;
}

char *vt_shorten(const char *text, int columns, enum vt_cut cut)
{
    static const char ellipsis[] = "…";
    size_t length = strlen(text);
    char *out = vt_allocate(length + sizeof ellipsis), *end = out;
    int front;

    if (vt_text_columns(text) <= columns) {
        memcpy(out, text, length + 1);
    } else if (columns < 1) {
        *out = '\0';
    } else {
        front = cut == VT_CUT_END ? columns - 1 : cut == VT_CUT_MIDDLE ? (columns - 1) / 2 : 0;
        end = take_columns(out, text, front);
        end = stpcpy(end, ellipsis);
        if (cut != VT_CUT_END)
            strcpy(end,
                   cut == VT_CUT_PARTS ? tail_parts(text, columns - 1) : tail_of(text, columns - 1 - front));
    }
    for (char *c = out; *c; c++)
        if (*c == '\n' || *c == '\t' || *c == '\r')
            *c = ' ';
    return out;
}

/* ---- Output filter ---- */

void vt_print_begin(struct vt_print *print, const struct vt_view_style *style, const struct vt_report *report)
{
    *print = (struct vt_print){.style = style, .report = report};
    print->stream = vt_memory_stream(&print->text, &print->bytes);
    print->paragraph = vt_memory_stream(&print->paragraph_text, &print->paragraph_bytes);
}

static void put_colour(unsigned char code, FILE *out)
{
    if (code == '0')
        fputs("\033[0m", out);
    else if (code == '1')
        fputs("\033[1m", out);
    else if (code == '2')
        fputs("\033[2m", out);
    else if (code == '3')
        fputs("\033[1;31m", out);
    else if (code >= VT_MARK_PAPER && code < VT_MARK_PAPER + VT_CATEGORY_COUNT)
        fprintf(out, "\033[48;5;%um", vt_category_style(code - VT_MARK_PAPER)->colour);
    else if (code >= VT_MARK_INK && code < VT_MARK_INK + VT_CATEGORY_COUNT)
        fprintf(out, "\033[38;5;%um", vt_category_style(code - VT_MARK_INK)->colour);
}

/* One column for one column: the layout stays. */
static char ascii_of(uint32_t code)
{
    static const struct {
        uint32_t code;
        char ascii;
    } map[] = {
        {0xb7, '-'},   {0xb5, 'u'},   {0xd7, 'x'},   {0x2013, '-'}, {0x2014, '-'}, {0x2026, '~'},
        {0x2190, '<'}, {0x2191, '^'}, {0x2212, '-'}, {0x2264, '<'}, {0x2500, '-'}, {0x2502, '|'},
        {0x2571, '/'}, {0x2524, '+'}, {0x2534, '+'}, {0x253c, '+'}, {0x25b2, '^'}, {0x25be, 'v'},
        {0x2717, 'X'}, {0x2713, '+'}, {0x254c, '-'}, {0x251c, '+'}, {0x2514, '`'},
    };

    for (size_t i = 0; i < sizeof map / sizeof *map; i++)
        if (map[i].code == code)
            return map[i].ascii;
    return '?';
}

void vt_put_clean(const char *text, FILE *out)
{
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        if (vt_is_unsafe(code) || code == '\n')
            fputc('?', out);
        else
            fwrite(text, 1, bytes, out);
    }
}

void vt_put_word(const char *text, FILE *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
    const char *quote = strchr(text, '\'');

    if (*text && !text[strspn(text, plain)]) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; quote; text = quote + 1, quote = strchr(text, '\'')) {
        char *part = vt_copy_bytes(text, (size_t)(quote - text));

        vt_put_clean(part, out);
        fputs("'\\''", out);
        free(part);
    }
    vt_put_clean(text, out);
    fputc('\'', out);
}

/* Writes the page; no line ends in spaces. */
static void put_filtered(const struct vt_print *print, FILE *out)
{
    const char *text = print->text;
    int spaces = 0; /* not written yet */
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        if (code == ' ') {
            spaces++;
            continue;
        }
        if (code != '\n')
            fprintf(out, "%*s", spaces, "");
        spaces = 0;
        if (code == VT_MARK && text[1]) {
            bytes = 2;
            if (print->style->colour)
                put_colour((unsigned char)text[1], out);
        } else if (vt_is_unsafe(code)) {
            fputc('?', out);
        } else if (code >= 0x80 && !print->style->unicode) {
            fputc(ascii_of(code), out);
        } else {
            fwrite(text, 1, bytes, out);
        }
    }
}

void vt_print_finish(struct vt_print *print, FILE *out)
{
    fclose(print->paragraph);
    fclose(print->stream);
    put_filtered(print, out);
    free(print->text);
    free(print->paragraph_text);
}

/* ---- Paragraphs ---- */

static bool is_number(const char *word, size_t bytes)
{
    bool digit = false;

    for (size_t i = bytes && word[0] == '('; i < bytes; i++) {
        if (word[i] >= '0' && word[i] <= '9')
            digit = true;
        else if (!strchr(".,", word[i]))
            return false;
    }
    return digit;
}

/* End of the next piece that stays on one line: a word, a number with its unit, "GPU" or "step" and its
 * number.
 */
static const char *piece_end(const char *text)
{
    for (;;) {
        size_t bytes = strcspn(text, " \n\t");
        bool joins = is_number(text, bytes) || !strncmp(text, "GPU ", 4) || !strncmp(text, "step ", 5);
        if (!joins || text[bytes] != ' ')
            return text + bytes;
        text += bytes + 1;
    }
}

static void print_wrapped(struct vt_print *print, const char *label, int first, int indent, const char *text)
{
    int column = first;
    bool begins = true; /* a line */

    fprintf(print->stream, "%s%*s", label, first - vt_text_columns(label), "");
    for (text += strspn(text, " \n\t"); *text; text += strspn(text, " \n\t")) {
        const char *end = piece_end(text);
        int columns = columns_until(text, end);

        if (!begins && column + 1 + columns > print->style->width) {
            fprintf(print->stream, "\n%*s", indent, "");
            column = indent;
        } else if (!begins) {
            fputc(' ', print->stream);
            column++;
        }
        fwrite(text, 1, (size_t)(end - text), print->stream);
        column += columns;
        begins = false;
        text = end;
    }
    fputc('\n', print->stream);
}

static void end_paragraph(struct vt_print *print, const char *label, int first, int indent)
{
    fputc('\0', print->paragraph); /* an earlier, longer paragraph may follow in the buffer */
    fflush(print->paragraph);
    print_wrapped(print, label, first, indent, print->paragraph_text);
    rewind(print->paragraph);
}

void vt_end_paragraph(struct vt_print *print, int first, int indent)
{
    end_paragraph(print, "", first, indent);
}

void vt_end_labelled(struct vt_print *print, const char *label)
{
    char text[VT_LABEL_COLUMNS + 8];

    snprintf(text, sizeof text, "  " VT_DIM "%.*s" VT_RESET, VT_LABEL_COLUMNS - 3, label);
    end_paragraph(print, text, VT_LABEL_COLUMNS, VT_LABEL_COLUMNS);
}

void vt_print_labelled(struct vt_print *print, const char *label, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(print->paragraph, format, arguments);
    va_end(arguments);
    vt_end_labelled(print, label);
}

int vt_print_lines(struct vt_print *print)
{
    int lines = 0;

    fflush(print->stream);
    for (size_t i = 0; i < print->bytes; i++)
        lines += print->text[i] == '\n';
    return lines;
}

void vt_print_paragraph(struct vt_print *print, int first, int indent, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(print->paragraph, format, arguments);
    va_end(arguments);
    vt_end_paragraph(print, first, indent);
}
