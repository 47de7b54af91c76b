/* Tables as CSV, as RFC 4180 describes it: a header row, commas, lines that end with \r\n, quotes where a
 * cell needs them. Null is an empty cell; an empty text is "". Truth values are true and false. Text is UTF-8. */
#ifndef VT_CSV_H
#define VT_CSV_H

#include <stdio.h>

#include "report/tables.h"

/* 0, -ENOMEM, or -EIO for a stream that does not take it. */
int vt_csv_write(struct vt_tables *tables, unsigned table, FILE *out);

#endif
