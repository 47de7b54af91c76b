/* Tables as CSV, as RFC 4180 describes it: a header row, commas, lines that end with \r\n, quotes where a
 * cell needs them. Null is an empty cell; an empty text is "". Truth values are true and false. Text is
 * UTF-8. */
#include <errno.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "base/utf8.h"
#include "report/columns.h"
#include "view/exports.h"

struct writing {
    struct vt_columns columns;
    FILE *out;
};

static void put_number(uint64_t number, FILE *out)
{
    char digits[20];
    size_t first = sizeof digits;

    do
        digits[--first] = (char)('0' + number % 10);
    while (number /= 10);
    fwrite_unlocked(digits + first, 1, sizeof digits - first, out);
}

/* Bytes that are no UTF-8 become U+FFFD. */
static void put_quoted(const char *text, FILE *out)
{
    uint32_t code;

    putc_unlocked('"', out);
    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) != 0; text += bytes) {
        if (code == '"')
            putc_unlocked('"', out);
        if (code == VT_REPLACEMENT)
            fputs_unlocked(VT_REPLACEMENT_TEXT, out);
        else
            fwrite_unlocked(text, 1, bytes, out);
    }
    putc_unlocked('"', out);
}

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '"' || *text == ',' || (unsigned char)*text >= 0x80)
            return false;
    return true;
}

static void put_cell(const struct vt_cell *cell, FILE *out)
{
    switch (cell->kind) {
    case VT_CELL_INTEGER:
        if (cell->integer < 0)
            putc_unlocked('-', out);
        put_number(cell->integer < 0 ? 0 - (uint64_t)cell->integer : (uint64_t)cell->integer, out);
        break;
    case VT_CELL_UNSIGNED:
        put_number(cell->unsigned_value, out);
        break;
    case VT_CELL_REAL:
        fprintf(out, "%.17g", cell->real);
        break;
    case VT_CELL_BOOL:
        fputs_unlocked(cell->unsigned_value ? "true" : "false", out);
        break;
    case VT_CELL_TEXT:
        if (cell->text[0] && is_plain(cell->text))
            fputs_unlocked(cell->text, out);
        else
            put_quoted(cell->text, out);
        break;
    default: /* null */
        break;
    }
}

static void end_cell(const struct writing *writing, size_t column)
{
    fputs_unlocked(column + 1 < writing->columns.count ? "," : "\r\n", writing->out);
}

static int put_row(void *context, const void *row)
{
    const struct writing *writing = context;

    for (size_t i = 0; i < writing->columns.count; i++) {
        const struct vt_cell cell = vt_column_read(&writing->columns.items[i], row);

        put_cell(&cell, writing->out);
        end_cell(writing, i);
    }
    return ferror_unlocked(writing->out) ? -EIO : 0;
}

static int write_table(struct vt_tables *tables, unsigned table, FILE *out)
{
    struct writing writing = {.out = out};
    int result;

    vt_columns_make(vt_table_object(table), &writing.columns);
    for (size_t i = 0; i < writing.columns.count; i++) {
        fputs_unlocked(writing.columns.items[i].name, out);
        end_cell(&writing, i);
    }
    result = vt_table_walk(tables, table, put_row, &writing);
    vt_columns_free(&writing.columns);
    return result;
}

int vt_csv_table_write(const struct vt_export *export)
{
    return write_table(export->tables, export->table, export->stream);
}

static int write_file(const struct vt_export *export, unsigned table)
{
    char *path = vt_print_text("%s/%s.csv", export->path, vt_table_names[table]);
    FILE *file = fopen(path, "wxe");
    int result = file ? write_table(export->tables, table, file) : -errno;
    if (file && fflush(file))
        result = -errno;
    if (file && fclose(file) && !result)
        result = -errno;
    free(path);
    return result;
}

int vt_csv_write(const struct vt_export *export)
{
    int result = 0;

    for (unsigned table = 0; table < VT_TABLE_COUNT && !result; table++)
        if (vt_table_wanted(export->tables, table))
            result = write_file(export, table);
    return result;
}
