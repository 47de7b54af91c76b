/* All tables as one SQLite database, with keys, indexes and views (docs/tables.md). Truth values are 0 and 1.
 * SQLite's integers are signed: an unsigned number from 2^63 on (of columns `detail`, `total_bytes` and
 * `sequence` of events) is there as that number less 2^64. */
#ifndef VT_SQLITE_H
#define VT_SQLITE_H

#include <stddef.h>

#include "report/tables.h"

/* Makes the database in PATH, an empty file. If it fails the file is of no use; `error` has SQLite's reason.
 * 0, -ENOMEM, -ENOSPC or -EIO. */
int vt_sqlite_write(struct vt_tables *tables, const char *path, char *error, size_t error_bytes);

#endif
