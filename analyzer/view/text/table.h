/* Tables of a report's text. */
#ifndef VT_VIEW_TEXT_TABLE_H
#define VT_VIEW_TEXT_TABLE_H

#include "view/text/print.h"

/* A table: the caller's columns, rows of cells. */
struct vt_table {
    const struct vt_print_column *columns;
    int column_count;
    char **cells; /* owned, and each of them */
    size_t cell_count, capacity;
};
void vt_table_begin(struct vt_table *table, const struct vt_print_column *columns, int column_count);
/* Cells come row by row. The table frees `text`. */
void vt_table_put(struct vt_table *table, char *text);
/* vt_table_cell(&table, "%d", number) */
#define vt_table_cell(table, ...) vt_table_put(table, vt_print_text(__VA_ARGS__))
/* Several cells: vt_table_cells(&table, "a", "b"). */
#define vt_table_cells(table, ...) vt_table_add(table, (const char *const[]){__VA_ARGS__, NULL})
void vt_table_add(struct vt_table *table, const char *const *texts);
/* Leaves the rest of the row empty. */
void vt_table_end_row(struct vt_table *table);
void vt_table_category(struct vt_table *table, const uint64_t categories[VT_CATEGORY_COUNT]);
/* Two cells: bytes, and their part of the whole. */
void vt_table_size(struct vt_table *table, uint64_t bytes, uint64_t whole);
/* "… 3 more", after `indent` spaces, where not all of `count` rows are shown. */
void vt_table_more(struct vt_table *table, int indent, size_t count, size_t shown);
/* "… 3 more" and the sum of the rows that are not shown, in the cells after `before` empty ones; nothing
 * without such rows. */
void vt_table_rest(struct vt_table *table, size_t rest, uint64_t bytes, uint64_t whole, int before);
/* Prints titles (the first stands two columns further left: it is the section's) and rows, and frees all. */
void vt_table_print(struct vt_table *table, struct vt_print *print);

#endif
