#include "view/html/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_stream.h"

/* What grows from row to row, or may be negative, is written as differences. */
static enum vt_encoding encoding_of(const struct vt_column *column)
{
    if (column->kind == VT_CELL_TEXT)
        return VT_ENCODING_TEXTS;
    if (column->kind == VT_CELL_BOOL || column->unit == VT_UNIT_BYTES || column->unit == VT_UNIT_ADDRESS)
        return VT_ENCODING_NUMBERS;
    return VT_ENCODING_DELTAS;
}

void vt_page_table_add(struct vt_page_table *table, const char *name, enum vt_encoding encoding)
{
    struct vt_page_column *column = &table->columns[table->count++];

    *column = (struct vt_page_column){.name = name, .encoding = (uint8_t)encoding};
    column->stream = vt_memory_stream(&column->values, &column->bytes);
}

void vt_page_table_make(struct vt_page_table *table, struct vt_page_trace *page, enum vt_table_id id,
                        const char *const *columns)
{
    *table = (struct vt_page_table){.page = page};
    vt_columns_make(vt_table_object(id), &table->schema);
    for (; *columns; columns++)
        for (size_t i = 0; i < table->schema.count; i++)
            if (!strcmp(table->schema.items[i].name, *columns)) {
                vt_page_table_add(table, *columns, encoding_of(&table->schema.items[i]));
                table->columns[table->count - 1].schema = table->schema.items[i];
            }
}

void vt_page_table_free(struct vt_page_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        fclose(table->columns[i].stream);
        free(table->columns[i].values);
    }
    vt_columns_free(&table->schema);
    table->count = 0;
}

/* ---- Rows ---- */

static uint64_t value_of(const struct vt_column *column, const struct vt_report *report, const void *row)
{
    struct vt_cell cell = vt_column_read(column, row);

    if (cell.kind == VT_CELL_NULL)
        return 0;
    if (cell.kind == VT_CELL_TEXT)
        return (uintptr_t)cell.text;
    if (column->unit == VT_UNIT_EVENT)
        return vt_report_event_number(report, cell.unsigned_value);
    if (column->unit == VT_UNIT_LAST_EVENT)
        return vt_report_last_event_number(report, cell.unsigned_value);
    return cell.unsigned_value;
}

void vt_page_table_read(const struct vt_page_table *table, const void *row, uint64_t *values)
{
    for (size_t i = 0; i < table->count && table->columns[i].schema.name; i++)
        values[i] = value_of(&table->columns[i].schema, table->page->report, row);
}

void vt_page_table_number(const struct vt_page_table *table, uint64_t *values)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->columns[i].encoding == VT_ENCODING_TEXTS)
            values[i] = vt_strings_find(&table->page->strings, (const char *)(uintptr_t)values[i], NULL);
}

/* LEB128: 7 bits a byte, the lowest first; the highest bit says that more follow. */
static void put_varint(uint64_t number, FILE *out)
{
    for (; number > 0x7f; number >>= 7)
        putc_unlocked((int)(number & 0x7f) | 0x80, out);
    putc_unlocked((int)number, out);
}

void vt_page_table_put(struct vt_page_table *table, const uint64_t *values)
{
    for (size_t i = 0; i < table->count; i++) {
        struct vt_page_column *column = &table->columns[i];
        uint64_t change = values[i] - column->last;
        bool is_delta = column->encoding == VT_ENCODING_DELTAS;

        column->last = values[i];
        put_varint(is_delta ? change << 1 ^ (change >> 63 ? UINT64_MAX : 0) : values[i], column->stream);
    }
    table->rows++;
}

/* ---- Whole tables ---- */

static void begin_entry(struct vt_page_trace *page, const char *name, struct vt_blob blob)
{
    fprintf(page->entries, "%s\"%s\":{", ftell(page->entries) ? "," : "", name);
    vt_blob_describe(&blob, page->entries);
}

void vt_page_blob_add(struct vt_page_trace *page, const char *name, struct vt_blob blob)
{
    begin_entry(page, name, blob);
    fputs("}", page->entries);
}

void vt_page_table_finish(struct vt_page_table *table, const char *name)
{
    static const char *const encodings[] = {"numbers", "deltas", "texts"};
    FILE *entries = table->page->entries, *all;
    char *text;
    size_t bytes;

    all = vt_memory_stream(&text, &bytes);
    for (size_t i = 0; i < table->count; i++) {
        fflush(table->columns[i].stream);
        fwrite(table->columns[i].values, 1, table->columns[i].bytes, all);
    }
    fclose(all);
    begin_entry(table->page, name, vt_blob_add(table->page->blobs, text, bytes));
    fprintf(entries, ",\"rows\":%" PRIu64 ",\"columns\":{", table->rows);
    for (size_t i = 0; i < table->count; i++)
        fprintf(entries, "%s\"%s\":\"%s\"", i ? "," : "", table->columns[i].name,
                encodings[table->columns[i].encoding]);
    fputs("}}", entries);
    vt_page_table_free(table);
}

struct copy {
    struct vt_page_table table;
    vt_row_filter *keep;
    void *context;
};

static int copy_row(void *context, const void *row)
{
    struct copy *copy = context;
    uint64_t values[VT_PAGE_COLUMNS_MAXIMUM];

    if (copy->keep && !copy->keep(copy->context, row))
        return 0;
    vt_page_table_read(&copy->table, row, values);
    vt_page_table_number(&copy->table, values);
    vt_page_table_put(&copy->table, values);
    return 0;
}

void vt_page_table_copy(struct vt_page_trace *page, enum vt_table_id id, const char *const *columns,
                        vt_row_filter *keep, void *context)
{
    struct copy copy = {.keep = keep, .context = context};

    vt_page_table_make(&copy.table, page, id, columns);
    vt_table_walk(page->tables, id, copy_row, &copy);
    vt_page_table_finish(&copy.table, vt_table_names[id]);
}
