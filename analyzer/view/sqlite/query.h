/* Questions to the tables of a trace, in SQL: reading only, bounded in time, memory and rows. */
#ifndef VT_QUERY_H
#define VT_QUERY_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "report/tables.h"

struct sqlite3;

/* All tables as a database in memory, which no statement can change any more; its table `columns` has the
 * views too. If memory ran out at the event `oom_event` of a device, the view alive_at_oom is of that moment;
 * a device of -1 = it did not. 0 or -ENOMEM or -EIO. */
int vt_query_begin(struct vt_tables *tables, int oom_device, uint32_t oom_event, struct sqlite3 **database);
void vt_query_end(struct sqlite3 *database); /* NULL too */

/* Prints the first `rows` rows of one SELECT as text: a line of titles, then one each, of each cell at most
 * `letters` (0 = the usual number). Without `text`, the tables with their columns. *data is
 * {"columns": [...], "rows": [[...]], "more": true if there are others}; the caller deletes it. Long texts
 * are cut. -EINVAL with the reason in `error` for what is no query, is not allowed or takes too long;
 * -ENOMEM. */
int vt_query(struct sqlite3 *database, const char *text, size_t rows, size_t letters, FILE *out, cJSON **data,
             char *error, size_t error_bytes);

#endif
