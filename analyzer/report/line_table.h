/* Lines and files of stacks, each as one item with a number. */
#ifndef VT_REPORT_LINE_TABLE_H
#define VT_REPORT_LINE_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct vt_report;

/* A line of a file, or a whole file. */
struct vt_line_item {
    uint32_t file; /* index of the item that is the whole file */
    int32_t line;  /* 0 = not known, VT_WHOLE_FILE */
    uint32_t met;  /* private to line_table.c: ordinal of the last stack that has it */
    const char *path;
};
#define VT_WHOLE_FILE (-1)
#define VT_NO_FILE 0u /* the item of what has no file */

/* The items of a stack, each once. */
struct vt_stack_lines {
    uint32_t own, own_file;  /* VT_NO_FILE = not known */
    const uint32_t *through; /* lines and files, with its own; valid until the next stack is read */
    size_t through_count;
};
struct vt_line_table;
struct vt_line_table *vt_line_table_make(const struct vt_report *report);
void vt_line_table_free(struct vt_line_table *table);
struct vt_stack_lines vt_line_table_read(struct vt_line_table *table, uint32_t stack_id);
/* The items so far; valid until the next stack is read. */
const struct vt_line_item *vt_line_table_items(const struct vt_line_table *table, size_t *count);

#endif
