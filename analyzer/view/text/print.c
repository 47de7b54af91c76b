#include "view/text/print.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int vt_print_begin(struct vt_print *print, const struct vt_view_style *style)
{
    *print = (struct vt_print){.style = style};
    print->stream = open_memstream(&print->text, &print->bytes);
    return print->stream ? 0 : -ENOMEM;
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

/* One column for one column, so that nothing loses its place. */
static char ascii_of(uint32_t code)
{
    static const struct {
        uint32_t code;
        char ascii;
    } map[] = {
        {0xb7, '-'},   {0xb5, 'u'},   {0xd7, 'x'},   {0x2013, '-'}, {0x2014, '-'},
        {0x2026, '~'}, {0x2190, '<'}, {0x2191, '^'}, {0x2212, '-'}, {0x2264, '<'},
        {0x2500, '-'}, {0x2502, '|'}, {0x2524, '+'}, {0x2534, '+'}, {0x253c, '+'},
        {0x25b2, '^'}, {0x25be, 'v'}, {0x2717, 'X'}, {0x251c, '+'}, {0x2514, '`'},
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

int vt_print_finish(struct vt_print *print, FILE *out)
{
    bool failed = fclose(print->stream) != 0;
    const char *text = print->text;
    int spaces = 0; /* held back: none is printed before a line's end */
    uint32_t code;

    print->stream = NULL;
    if (failed || !text) {
        free(print->text);
        return -ENOMEM;
    }
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
    free(print->text);
    errno = 0;
    return fflush(out) || ferror(out) ? (errno ? -errno : -EIO) : 0;
}

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

/* End of the next piece that must stay on one line: a word, with a unit after a number, a number after "GPU".
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

static void print_wrapped(struct vt_print *print, int first, int indent, const char *text)
{
    int column = first;
    bool begins = true; /* a line */

    fprintf(print->stream, "%*s", first, "");
    for (text += strspn(text, " \n\t"); *text; text += strspn(text, " \n\t")) {
        const char *end = piece_end(text);
        char *piece = strndup(text, (size_t)(end - text));
        int columns = piece ? vt_text_columns(piece) : 0;

        if (!begins && column + 1 + columns > print->style->width) {
            fprintf(print->stream, "\n%*s", indent, "");
            column = indent;
        } else if (!begins) {
            fputc(' ', print->stream);
            column++;
        }
        fputs(piece ? piece : "", print->stream);
        column += columns;
        begins = false;
        free(piece);
        text = end;
    }
    fputc('\n', print->stream);
}

void vt_print_paragraph(struct vt_print *print, int first, int indent, const char *format, ...)
{
    va_list arguments;
    char *text = NULL;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) >= 0) {
        print_wrapped(print, first, indent, text);
        free(text);
    }
    va_end(arguments);
}
