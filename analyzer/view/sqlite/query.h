/* Questions to the tables of a trace, in SQL: reading only, bounded in time, memory and rows. */
#ifndef VT_QUERY_H
#define VT_QUERY_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "report/tables.h"

struct sqlite3;

/* All tables as a database in memory, which no statement can change any more. 0 or -ENOMEM or -EIO. */
int vt_query_begin(struct vt_tables *tables, struct sqlite3 **database);
void vt_query_end(struct sqlite3 *database); /* NULL too */

/* Prints the first `rows` rows of one SELECT as text: a line of titles, then one each. *data is
 * {"columns": [...], "rows": [[...]], "more": true if there are others}; the caller deletes it. Long texts
 * are cut. -EINVAL with the reason in `error` for what is no query, is not allowed or takes too long;
 * -ENOMEM. */
int vt_query(struct sqlite3 *database, const char *text, size_t rows, FILE *out, cJSON **data, char *error,
             size_t error_bytes);

#endif
