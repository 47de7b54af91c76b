/* Tables of the page: columns of schema.def, and some that only the page has, as numbers. A text is the
 * number of a string of the trace. docs/page.md describes the encodings. */
#ifndef VT_PAGE_TABLE_H
#define VT_PAGE_TABLE_H

#include "report/columns.h"
#include "report/tables.h"
#include "view/html/blobs.h"
#include "base/strings.h"

/* A trace on its way into the page. */
struct vt_page_trace {
    const struct vt_report *report;
    struct vt_tables *tables;
    struct vt_strings strings; /* "" is number 0 */
    struct vt_blobs *blobs;
    FILE *entries; /* of the blobs, for HEAD */
    char *entries_text;
};

/* Adds an entry to HEAD. */
void vt_page_blob_add(struct vt_page_trace *page, const char *name, struct vt_blob blob);

#define VT_PAGE_COLUMNS_MAXIMUM 24u

enum vt_encoding { VT_ENCODING_NUMBERS, VT_ENCODING_DELTAS, VT_ENCODING_TEXTS };

struct vt_page_column {
    const char *name;
    struct vt_column schema; /* schema.name NULL: only the page has it */
    uint8_t encoding;        /* enum vt_encoding */
    uint64_t last;           /* the value before */
    FILE *stream;
    char *values; /* what the stream wrote */
    size_t bytes;
};
struct vt_page_table {
    struct vt_page_trace *page;
    struct vt_page_column columns[VT_PAGE_COLUMNS_MAXIMUM];
    size_t count;
    uint64_t rows;
    struct vt_columns schema;
};

/* `columns`: those to keep of a table of report/tables.h, by their names, up to NULL. */
void vt_page_table_make(struct vt_page_table *table, struct vt_page_trace *page, enum vt_table_id id,
                        const char *const *columns);
/* Adds a column that only the page has. */
void vt_page_table_add(struct vt_page_table *table, const char *name, enum vt_encoding encoding);
void vt_page_table_free(struct vt_page_table *table);

/* The values of a row of report/tables.h, one for each column of the schema. Null is 0; of a text it is the
 * address, until vt_page_table_number puts the number of its string there. */
void vt_page_table_read(const struct vt_page_table *table, const void *row, uint64_t *values);
void vt_page_table_number(const struct vt_page_table *table, uint64_t *values);
/* Appends a row: a value for each column. */
void vt_page_table_put(struct vt_page_table *table, const uint64_t *values);
/* Adds the blob, and its entry to HEAD; frees the table. */
void vt_page_table_finish(struct vt_page_table *table, const char *name);

/* All of these for the rows of a table for which `keep` is true; NULL keeps all. */
typedef bool vt_row_filter(void *context, const void *row);
void vt_page_table_copy(struct vt_page_trace *page, enum vt_table_id id, const char *const *columns,
                        vt_row_filter *keep, void *context);

#endif
