/* All tables as one SQLite database, with keys, indexes and views (docs/tables.md). Truth values are 0 and 1.
 * SQLite's integers are signed: an unsigned number from 2^63 on is there as that number less 2^64. Each table
 * is filled in one go, and indexed when it is full. */
#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "base/allocate.h"
#include "base/memory_stream.h"
#include "base/utf8.h"
#include "report/columns.h"
#include "view/exports.h"

#define INDEXES 5

/* What a table's rows are found by. */
static const struct layout {
    const char *key; /* NULL = no single row */
    const char *indexes[INDEXES];
} layouts[VT_TABLE_COUNT] = {
    [VT_TABLE_EVENTS] = {"event", {"kind", "address", "stack"}},
    [VT_TABLE_ALLOCATIONS] = {"allocation", {"alloc_event", "free_event", "owner", "stack", "parent"}},
    [VT_TABLE_STACKS] = {"stack, depth", {"frame"}},
    [VT_TABLE_FRAMES] = {"frame", {"file, line"}},
    [VT_TABLE_TENSORS] = {NULL, {"tensor_list", "name"}},
    [VT_TABLE_STEPS] = {"device, step", {"step"}},
    [VT_TABLE_PHASES] = {"first_event", {"step"}},
    [VT_TABLE_MARKS] = {"event", {"name"}},
    [VT_TABLE_REQUESTS] = {"request", {"first_event"}},
    [VT_TABLE_INSTANTS] = {"device, event", {"event"}},
    [VT_TABLE_TRACE] = {NULL, {NULL}},
    [VT_TABLE_DEVICES] = {"device", {NULL}},
    [VT_TABLE_PEAK] = {NULL, {"category", "module", "place_name"}},
    [VT_TABLE_LEAKS] = {NULL, {NULL}},
    [VT_TABLE_OUT_OF_MEMORY] = {"event", {NULL}},
    [VT_TABLE_COLUMNS] = {"table_name, column_name", {NULL}},
};

#define ALIVE_AT(moment)                                                                                     \
    "CREATE VIEW alive_at_" moment " AS SELECT allocations.* FROM devices JOIN allocations USING (device) "  \
    "WHERE alloc_event <= " moment "_event AND (free_event IS NULL OR free_event > " moment "_event);"
static const char views[] = ALIVE_AT("peak") ALIVE_AT(
    "end") "CREATE VIEW stack_texts AS SELECT stack, group_concat(name, char(10)) AS text FROM "
           "(SELECT stack, name FROM stacks JOIN frames USING (frame) ORDER BY stack, depth) GROUP BY stack;";

struct writing {
    sqlite3 *database;
    sqlite3_stmt *insert;
    struct vt_columns columns;
    int error; /* the first, -errno: nothing is executed after it; 0 = none */
};

/* 0 or -errno. */
static int error_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_DONE:
        return 0;
    case SQLITE_NOMEM:
        vt_end_out_of_memory();
    case SQLITE_FULL:
        return -ENOSPC;
    default:
        return -EIO;
    }
}

static void execute_text(struct writing *writing, const char *text)
{
    if (!writing->error)
        writing->error = error_of(sqlite3_exec(writing->database, text, NULL, NULL, NULL));
}

/* ---- Rows ---- */

static bool is_utf8(const char *text)
{
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) != 0; text += bytes)
        if (code == VT_REPLACEMENT)
            return false;
    return true;
}

/* Text whose bytes are not UTF-8, with U+FFFD for those. */
static int bind_repaired(sqlite3_stmt *insert, int column, const char *text)
{
    char *repaired;
    size_t repaired_bytes;
    FILE *stream = vt_memory_stream(&repaired, &repaired_bytes);
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) != 0; text += bytes)
        if (code == VT_REPLACEMENT)
            fputs(VT_REPLACEMENT_TEXT, stream);
        else
            fwrite(text, 1, bytes, stream);
    fclose(stream);
    return sqlite3_bind_text(insert, column, repaired, -1, free);
}

static int bind_cell(sqlite3_stmt *insert, int column, const struct vt_cell *cell)
{
    switch (cell->kind) {
    case VT_CELL_INTEGER:
        return sqlite3_bind_int64(insert, column, cell->integer);
    case VT_CELL_UNSIGNED:
    case VT_CELL_BOOL:
        return sqlite3_bind_int64(insert, column, (int64_t)cell->unsigned_value);
    case VT_CELL_REAL:
        return sqlite3_bind_double(insert, column, cell->real);
    case VT_CELL_TEXT:
        if (is_utf8(cell->text))
            return sqlite3_bind_text(insert, column, cell->text, -1, SQLITE_STATIC);
        return bind_repaired(insert, column, cell->text);
    default:
        return sqlite3_bind_null(insert, column);
    }
}

static int put_row(void *context, const void *row)
{
    const struct writing *writing = context;
    int code = SQLITE_OK;

    for (size_t i = 0; i < writing->columns.count && code == SQLITE_OK; i++) {
        const struct vt_cell cell = vt_column_read(&writing->columns.items[i], row);

        code = bind_cell(writing->insert, (int)i + 1, &cell);
    }
    if (code == SQLITE_OK)
        code = sqlite3_step(writing->insert);
    sqlite3_reset(writing->insert);
    return error_of(code);
}

/* ---- Tables ---- */

static const char *type_of(unsigned kind)
{
    return kind == VT_CELL_TEXT ? "TEXT" : kind == VT_CELL_REAL ? "REAL" : "INTEGER";
}

static void create_table(struct writing *writing, unsigned table)
{
    char *text;
    size_t bytes;
    FILE *stream = vt_memory_stream(&text, &bytes);

    fprintf(stream, "CREATE TABLE %s (", vt_table_names[table]);
    for (size_t i = 0; i < writing->columns.count; i++)
        fprintf(stream, "%s%s %s", i ? ", " : "", writing->columns.items[i].name,
                type_of(writing->columns.items[i].kind));
    if (layouts[table].key)
        fprintf(stream, ", PRIMARY KEY (%s)", layouts[table].key);
    fputs(")", stream);
    fclose(stream);
    execute_text(writing, text);
    free(text);
}

static void create_indexes(struct writing *writing, unsigned table)
{
    const struct layout *layout = &layouts[table];

    for (unsigned i = 0; i < INDEXES && layout->indexes[i]; i++) {
        char *text = vt_print_text("CREATE INDEX %s_%u ON %s (%s)", vt_table_names[table], i + 1,
                                   vt_table_names[table], layout->indexes[i]);

        execute_text(writing, text);
        free(text);
    }
}

static void fill_table(struct writing *writing, struct vt_tables *tables, unsigned table)
{
    char *text;
    size_t bytes;
    FILE *stream = vt_memory_stream(&text, &bytes);

    fprintf(stream, "INSERT INTO %s VALUES (", vt_table_names[table]);
    for (size_t i = 0; i < writing->columns.count; i++)
        fputs(i ? ",?" : "?", stream);
    fputs(")", stream);
    fclose(stream);
    writing->error = error_of(sqlite3_prepare_v2(writing->database, text, -1, &writing->insert, NULL));
    if (!writing->error)
        writing->error = vt_table_walk(tables, table, put_row, writing);
    sqlite3_finalize(writing->insert);
    free(text);
}

static void write_table(struct writing *writing, struct vt_tables *tables, unsigned table)
{
    vt_columns_make(vt_table_object(table), &writing->columns);
    create_table(writing, table);
    if (!writing->error)
        fill_table(writing, tables, table);
    create_indexes(writing, table);
    vt_columns_free(&writing->columns);
}

/* The file is thrown away if anything fails: no journal, and nothing forced to disk on the way. */
#define BEGIN                                                                                                \
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "                 \
    "PRAGMA user_version = 1; BEGIN"

int vt_sqlite_write(const struct vt_export *export)
{
    struct writing writing = {.database = NULL};

    writing.error = error_of(sqlite3_open_v2(export->path, &writing.database, SQLITE_OPEN_READWRITE, NULL));
    execute_text(&writing, BEGIN);
    for (unsigned table = 0; table < VT_TABLE_COUNT && !writing.error; table++)
        if (vt_table_wanted(export->tables, table))
            write_table(&writing, export->tables, table);
    if (vt_table_wanted(export->tables, VT_TABLE_ALLOCATIONS))
        execute_text(&writing, views);
    execute_text(&writing, "COMMIT");
    if (sqlite3_close(writing.database) && !writing.error)
        writing.error = -EIO;
    return writing.error;
}
