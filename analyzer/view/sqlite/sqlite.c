/* All tables as one SQLite database, with keys, indexes and views (docs/tables.md). Truth values are 0 and 1.
 * SQLite's integers are signed: an unsigned number from 2^63 on is there as that number less 2^64. Each table
 * is filled in one go, and indexed when it is full. */
#include <errno.h>
#include <sqlite3.h>

#include "base/allocate.h"
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

/* What was composed, which is to be freed by sqlite3_free(). */
static char *text_of(sqlite3_str *composed)
{
    char *text = sqlite3_str_finish(composed);

    if (!text)
        vt_end_out_of_memory();
    return text;
}

static int execute(struct writing *writing, const char *text)
{
    return error_of(sqlite3_exec(writing->database, text, NULL, NULL, NULL));
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
    sqlite3_str *repaired = sqlite3_str_new(NULL);
    uint32_t code;

    for (size_t bytes; (bytes = vt_utf8_next(text, &code)) != 0; text += bytes)
        sqlite3_str_append(repaired, code == VT_REPLACEMENT ? VT_REPLACEMENT_TEXT : text,
                           code == VT_REPLACEMENT ? (int)sizeof VT_REPLACEMENT_TEXT - 1 : (int)bytes);
    return error_of(sqlite3_bind_text(insert, column, text_of(repaired), -1, sqlite3_free));
}

static int bind(sqlite3_stmt *insert, int column, const struct vt_cell *cell)
{
    switch (cell->kind) {
    case VT_CELL_INTEGER:
        return error_of(sqlite3_bind_int64(insert, column, cell->integer));
    case VT_CELL_UNSIGNED:
    case VT_CELL_BOOL:
        return error_of(sqlite3_bind_int64(insert, column, (int64_t)cell->unsigned_value));
    case VT_CELL_REAL:
        return error_of(sqlite3_bind_double(insert, column, cell->real));
    case VT_CELL_TEXT:
        if (is_utf8(cell->text))
            return error_of(sqlite3_bind_text(insert, column, cell->text, -1, SQLITE_STATIC));
        return bind_repaired(insert, column, cell->text);
    default:
        return error_of(sqlite3_bind_null(insert, column));
    }
}

static int put_row(void *context, const void *row)
{
    const struct writing *writing = context;
    int result = 0;

    for (size_t i = 0; i < writing->columns.count && !result; i++) {
        const struct vt_cell cell = vt_column_read(&writing->columns.items[i], row);

        result = bind(writing->insert, (int)i + 1, &cell);
    }
    if (!result)
        result = error_of(sqlite3_step(writing->insert));
    sqlite3_reset(writing->insert);
    return result;
}

/* ---- Tables ---- */

static const char *type_of(unsigned kind)
{
    return kind == VT_CELL_TEXT ? "TEXT" : kind == VT_CELL_REAL ? "REAL" : "INTEGER";
}

/* Executes what was composed, and frees it. */
static int execute_composed(struct writing *writing, sqlite3_str *composed)
{
    char *text = text_of(composed);
    int result = execute(writing, text);

    sqlite3_free(text);
    return result;
}

static int create_table(struct writing *writing, unsigned table)
{
    sqlite3_str *text = sqlite3_str_new(writing->database);

    sqlite3_str_appendf(text, "CREATE TABLE %s (", vt_table_names[table]);
    for (size_t i = 0; i < writing->columns.count; i++)
        sqlite3_str_appendf(text, "%s%s %s", i ? ", " : "", writing->columns.items[i].name,
                            type_of(writing->columns.items[i].kind));
    if (layouts[table].key)
        sqlite3_str_appendf(text, ", PRIMARY KEY (%s)", layouts[table].key);
    sqlite3_str_appendall(text, ")");
    return execute_composed(writing, text);
}

static int create_indexes(struct writing *writing, unsigned table)
{
    const struct layout *layout = &layouts[table];
    int result = 0;

    for (unsigned i = 0; i < INDEXES && layout->indexes[i] && !result; i++) {
        sqlite3_str *text = sqlite3_str_new(writing->database);

        sqlite3_str_appendf(text, "CREATE INDEX %s_%u ON %s (%s)", vt_table_names[table], i + 1,
                            vt_table_names[table], layout->indexes[i]);
        result = execute_composed(writing, text);
    }
    return result;
}

static int prepare_insert(struct writing *writing, unsigned table)
{
    sqlite3_str *composed = sqlite3_str_new(writing->database);
    char *text;
    int result;

    sqlite3_str_appendf(composed, "INSERT INTO %s VALUES (", vt_table_names[table]);
    for (size_t i = 0; i < writing->columns.count; i++)
        sqlite3_str_appendall(composed, i ? ",?" : "?");
    sqlite3_str_appendall(composed, ")");
    text = text_of(composed);
    result = error_of(sqlite3_prepare_v2(writing->database, text, -1, &writing->insert, NULL));
    sqlite3_free(text);
    return result;
}

static int write_table(struct writing *writing, struct vt_tables *tables, unsigned table)
{
    int result;

    vt_columns_make(vt_table_object(table), &writing->columns);
    result = create_table(writing, table);
    if (!result)
        result = prepare_insert(writing, table);
    if (!result)
        result = vt_table_walk(tables, table, put_row, writing);
    sqlite3_finalize(writing->insert);
    writing->insert = NULL;
    if (!result)
        result = create_indexes(writing, table);
    vt_columns_free(&writing->columns);
    return result;
}

/* The file is thrown away if anything fails: no journal, and nothing forced to disk on the way. */
#define BEGIN                                                                                                \
    "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "                 \
    "PRAGMA user_version = 1; BEGIN"

static int write_all(struct writing *writing, struct vt_tables *tables)
{
    int result = execute(writing, BEGIN);

    for (unsigned table = 0; table < VT_TABLE_COUNT && !result; table++)
        if (vt_table_wanted(tables, table))
            result = write_table(writing, tables, table);
    if (!result && vt_table_wanted(tables, VT_TABLE_ALLOCATIONS))
        result = execute(writing, views);
    return result ? result : execute(writing, "COMMIT");
}

int vt_sqlite_write(const struct vt_export *export)
{
    struct writing writing = {.database = NULL};
    int result = error_of(sqlite3_open_v2(export->path, &writing.database, SQLITE_OPEN_READWRITE, NULL));

    if (!result)
        result = write_all(&writing, export->tables);
    if (sqlite3_close(writing.database) && !result)
        result = -EIO;
    return result;
}
