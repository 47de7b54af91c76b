#include "view/sqlite/query.h"

#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/utf8.h"
#include "view/sqlite/sqlite.h"

#define SECONDS 5           /* a query may take */
#define STEPS 16            /* of SQLite's machine between looks at the clock: one may search a long text */
#define MEMORY (256 << 20)  /* bytes that a query may take */
#define LONGEST (256 << 10) /* bytes of a text: instr() and LIKE take up to that squared */
#define LONGEST_PATTERN 1000
#define TEXT_CELL 160 /* letters of a cell as text, as data, and of a table's columns in the list */
#define DATA_CELL 2000
#define LIST_CELL 1000
#define DATA_BYTES 16384 /* of all cells as data: then the rest is left out */

/* ---- What a statement may do ---- */

static int authorize(void *context, int action, const char *a, const char *b, const char *c, const char *d)
{
    (void)context, (void)a, (void)c, (void)d;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        return b && (!sqlite3_stricmp(b, "load_extension") || !sqlite3_stricmp(b, "fts3_tokenizer"))
                   ? SQLITE_DENY
                   : SQLITE_OK;
    default:
        return SQLITE_DENY;
    }
}

/* The columns of a view are those of a table, or are told here. */
#define VIEW(name)                                                                                           \
    "INSERT INTO columns SELECT '" name "', column_name, type, unit, about FROM columns "                    \
    "WHERE table_name = 'allocations';"
static const char view_columns[] = VIEW("alive_at_peak") VIEW(
    "alive_at_end") "INSERT INTO columns VALUES "
                    "('stack_texts', 'stack', 'unsigned', 'id', 'the stack'),"
                    "('stack_texts', 'text', 'text', NULL, 'its frames, a line each, the innermost first');";

static bool describe_views(sqlite3 *database, int oom_device, uint32_t oom_event)
{
    char view[256];

    if (sqlite3_exec(database, view_columns, NULL, NULL, NULL))
        return false;
    if (oom_device < 0)
        return true;
    snprintf(
        view, sizeof view,
        "CREATE VIEW alive_at_oom AS SELECT * FROM allocations WHERE device = %d AND alloc_event <= %" PRIu32
        " AND (free_event IS NULL OR free_event > %" PRIu32 ")",
        oom_device, oom_event, oom_event);
    return !sqlite3_exec(database, view, NULL, NULL, NULL) &&
           !sqlite3_exec(database, VIEW("alive_at_oom"), NULL, NULL, NULL);
}

int vt_query_begin(struct vt_tables *tables, int oom_device, uint32_t oom_event, sqlite3 **made)
{
    sqlite3 *database;
    int result = vt_sqlite_make(tables, &database);

    *made = NULL;
    if (result)
        return result;
    /* Nothing of a query goes to a file either. */
    if (!describe_views(database, oom_device, oom_event) ||
        sqlite3_exec(database, "PRAGMA temp_store = MEMORY; PRAGMA query_only = ON", NULL, NULL, NULL) ||
        sqlite3_db_config(database, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL) ||
        sqlite3_set_authorizer(database, authorize, NULL)) {
        sqlite3_close(database);
        return -ENOMEM;
    }
    sqlite3_limit(database, SQLITE_LIMIT_LENGTH, LONGEST);
    sqlite3_limit(database, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LONGEST_PATTERN);
    sqlite3_limit(database, SQLITE_LIMIT_SQL_LENGTH, 64 << 10);
    sqlite3_limit(database, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(database, SQLITE_LIMIT_WORKER_THREADS, 0);
    *made = database;
    return 0;
}

void vt_query_end(sqlite3 *database)
{
    sqlite3_close(database);
}

/* ---- Cells ---- */

/* A copy that is UTF-8 and moves no cursor, of at most `letters`; the caller frees it. NULL without memory.
 */
static char *clean(const char *text, size_t letters, bool one_line)
{
    char *copy = malloc(strlen(text) * (sizeof VT_REPLACEMENT_TEXT - 1) + sizeof "…");
    size_t used = 0;
    uint32_t code;

    for (size_t bytes; copy && (bytes = vt_utf8_next(text, &code)) > 0; text += bytes) {
        const char *shown = text;

        if (!letters--) {
            used += (size_t)sprintf(copy + used, "…");
            break;
        }
        if (code == '\n' || code == '\t') {
            shown = one_line ? " " : text;
        } else if (vt_is_unsafe(code)) {
            shown = VT_REPLACEMENT_TEXT;
            memcpy(copy + used, shown, sizeof VT_REPLACEMENT_TEXT - 1);
            used += sizeof VT_REPLACEMENT_TEXT - 1;
            continue;
        }
        memcpy(copy + used, shown, bytes);
        used += bytes;
    }
    if (copy)
        copy[used] = '\0';
    return copy;
}

static bool put_text(const char *text, size_t letters, FILE *out)
{
    char *copy = clean(text, letters, true);

    if (copy)
        fputs(copy, out);
    free(copy);
    return copy != NULL;
}

static bool add_text(cJSON *row, const char *text, size_t letters, size_t *bytes)
{
    char *copy = clean(text, letters > DATA_CELL ? letters : DATA_CELL, false);
    bool added = copy && cJSON_AddItemToArray(row, cJSON_CreateString(copy));

    *bytes += copy ? strlen(copy) : 0;
    free(copy);
    return added;
}

/* Integers digit by digit: a double would lose some. */
static bool put_cell(sqlite3_stmt *statement, int column, cJSON *row, size_t letters, size_t *bytes,
                     FILE *out)
{
    char number[64];
    double real = sqlite3_column_double(statement, column);
    const char *text;

    *bytes += 8;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        snprintf(number, sizeof number, "%" PRId64, (int64_t)sqlite3_column_int64(statement, column));
        fputs(number, out);
        return cJSON_AddItemToArray(row, cJSON_CreateRaw(number));
    case SQLITE_FLOAT:
        fprintf(out, "%.6g", real);
        return cJSON_AddItemToArray(row, cJSON_CreateNumber(real));
    case SQLITE_TEXT:
        text = (const char *)sqlite3_column_text(statement, column);
        return text && put_text(text, letters, out) && add_text(row, text, letters, bytes);
    case SQLITE_BLOB:
        snprintf(number, sizeof number, "blob of %d bytes", sqlite3_column_bytes(statement, column));
        fputs(number, out);
        return cJSON_AddItemToArray(row, cJSON_CreateString(number));
    default:
        return cJSON_AddItemToArray(row, cJSON_CreateNull());
    }
}

/* ---- Rows ---- */

struct deadline {
    struct timespec time;
    bool passed;
};

static int is_late(void *context)
{
    struct deadline *deadline = context;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    deadline->passed = now.tv_sec > deadline->time.tv_sec ||
                       (now.tv_sec == deadline->time.tv_sec && now.tv_nsec > deadline->time.tv_nsec);
    return deadline->passed;
}

static bool put_titles(sqlite3_stmt *statement, cJSON *columns, FILE *out)
{
    size_t bytes = 0;
    bool made = true;

    for (int i = 0; made && i < sqlite3_column_count(statement); i++) {
        const char *name = sqlite3_column_name(statement, i);

        fputs(i ? " | " : "", out);
        made = name && put_text(name, TEXT_CELL, out) && add_text(columns, name, 0, &bytes);
    }
    fputc('\n', out);
    return made;
}

static bool put_row(sqlite3_stmt *statement, cJSON *rows, size_t letters, size_t *bytes, FILE *out)
{
    cJSON *row = cJSON_CreateArray();
    bool made = row && cJSON_AddItemToArray(rows, row);

    for (int i = 0; made && i < sqlite3_column_count(statement); i++) {
        fputs(i ? " | " : "", out);
        made = put_cell(statement, i, row, letters, bytes, out);
    }
    fputc('\n', out);
    return made;
}

static int refuse(sqlite3 *database, const struct deadline *deadline, char *error, size_t error_bytes)
{
    int code = sqlite3_errcode(database) & 0xff;

    if (deadline && deadline->passed)
        snprintf(error, error_bytes, "the query took longer than %d s and was stopped: make it narrower",
                 SECONDS);
    else if (code == SQLITE_NOMEM || code == SQLITE_TOOBIG)
        snprintf(error, error_bytes, "the query needs too much memory: make it narrower");
    else if (code == SQLITE_AUTH)
        snprintf(error, error_bytes, "only SELECT is allowed here: %s", sqlite3_errmsg(database));
    else
        snprintf(error, error_bytes,
                 "%s; without `query` the tool lists tables and columns, SELECT * FROM columns explains them",
                 sqlite3_errmsg(database));
    return -EINVAL;
}

static int run(sqlite3 *database, sqlite3_stmt *statement, size_t limit, size_t letters, FILE *out,
               cJSON *data, const struct deadline *deadline, char *error, size_t error_bytes)
{
    cJSON *columns = cJSON_AddArrayToObject(data, "columns"), *rows = cJSON_AddArrayToObject(data, "rows");
    size_t count = 0, bytes = 0;
    bool made = columns && rows && put_titles(statement, columns, out), more = false;
    int code = SQLITE_DONE;

    while (made && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        more = count == limit || bytes > DATA_BYTES;
        if (more)
            break;
        made = put_row(statement, rows, letters, &bytes, out);
        count++;
    }
    if (made && code != SQLITE_DONE && code != SQLITE_ROW)
        return refuse(database, deadline, error, error_bytes);
    if (more)
        fputs("… there are more rows: LIMIT and OFFSET choose\n", out);
    else if (!count)
        fputs("no rows\n", out);
    return made && cJSON_AddBoolToObject(data, "more", more) ? 0 : -ENOMEM;
}

static int query(sqlite3 *database, const char *text, size_t rows, size_t letters, FILE *out, cJSON *data,
                 const struct deadline *deadline, char *error, size_t error_bytes)
{
    sqlite3_stmt *statement = NULL;
    const char *rest = "";
    int result;

    if (sqlite3_prepare_v2(database, text, -1, &statement, &rest))
        result = refuse(database, deadline, error, error_bytes);
    else if (!statement || !sqlite3_column_count(statement) || !sqlite3_stmt_readonly(statement)) {
        snprintf(error, error_bytes, "this is no query: give one SELECT");
        result = -EINVAL;
    } else if (rest[strspn(rest, " \t\r\n;")]) {
        snprintf(error, error_bytes, "one statement at a time");
        result = -EINVAL;
    } else {
        result = run(database, statement, rows, letters, out, data, deadline, error, error_bytes);
    }
    sqlite3_finalize(statement);
    return result;
}

/* Columns of states are listed once, with the table instants. */
#define STATE(prefix)                                                                                        \
    "substr(column_name, 1, length('" prefix "')) = '" prefix "' AND substr(column_name, length('" prefix    \
    "') + 1) IN (SELECT column_name FROM columns WHERE table_name = 'instants')"
static const char list_of_tables[] =
    "SELECT table_name AS \"table\", CASE WHEN table_name LIKE 'alive_at_%' THEN 'as allocations' ELSE "
    "group_concat(column_name, ', ') FILTER (WHERE NOT is_state) || CASE WHEN max(is_state) THEN "
    "'; peak_ and end_ with the columns of instants' ELSE '' END END AS columns FROM (SELECT rowid AS "
    "number, "
    "table_name, column_name, " STATE("peak_") " OR " STATE(
        "end_") " AS is_state FROM columns ORDER BY rowid) "
                "GROUP BY 1 ORDER BY min(number)";

int vt_query(sqlite3 *database, const char *text, size_t rows, size_t letters, FILE *out, cJSON **data,
             char *error, size_t error_bytes)
{
    struct deadline deadline = {.passed = false};
    int result;

    *data = cJSON_CreateObject();
    if (!*data)
        return -ENOMEM;
    clock_gettime(CLOCK_MONOTONIC, &deadline.time);
    deadline.time.tv_sec += SECONDS;
    sqlite3_progress_handler(database, STEPS, is_late, &deadline);
    sqlite3_hard_heap_limit64(sqlite3_memory_used() + MEMORY);
    result = query(database, text ? text : list_of_tables, rows,
                   letters ? letters
                   : text  ? TEXT_CELL
                           : LIST_CELL,
                   out, *data, &deadline, error, error_bytes);
    sqlite3_hard_heap_limit64(0);
    sqlite3_progress_handler(database, 0, NULL, NULL);
    if (result) {
        cJSON_Delete(*data);
        *data = NULL;
    }
    return result;
}
