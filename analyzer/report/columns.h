/* An object of schema.def as flat columns: what a table in a database, a spreadsheet or a data frame has.
 * Objects within objects put their name before their fields' ("peak_t_ns"); numbers by category are a column
 * each ("activation_bytes", "peak_activation_bytes"). Lists and stacks are tables of their own: left out. */
#ifndef VT_COLUMNS_H
#define VT_COLUMNS_H

#include "report/schema.h"

enum vt_cell_kind { VT_CELL_NULL, VT_CELL_INTEGER, VT_CELL_UNSIGNED, VT_CELL_REAL, VT_CELL_BOOL, VT_CELL_TEXT };

/* From a structure to one inside it: at an offset, or where a pointer there points. */
struct vt_column_step {
    uint32_t offset;
    bool is_pointer;
};
#define VT_COLUMN_STEPS 4u

struct vt_column {
    char *name;        /* owned */
    const char *about; /* what it is */
    uint8_t kind;      /* enum vt_cell_kind; a cell is of this kind or null */
    uint8_t unit;      /* enum vt_unit */
    /* private to columns.c */
    const struct vt_field *field;
    struct vt_column_step path[VT_COLUMN_STEPS];
    uint32_t steps, word;
};
struct vt_columns {
    struct vt_column *items;
    size_t count;
};

struct vt_cell {
    uint8_t kind;
    union {
        uint64_t unsigned_value; /* also of VT_CELL_BOOL */
        int64_t integer;
        double real;
        const char *text;
    };
};

const char *vt_cell_kind_name(unsigned kind); /* "integer", "unsigned", "real", "boolean", "text" */

void vt_columns_make(const struct vt_object *object, struct vt_columns *columns);
void vt_columns_free(struct vt_columns *columns);
/* What a row has in a column. Text lives as long as the row. */
struct vt_cell vt_column_read(const struct vt_column *column, const void *row);

#endif
