/* The tables of a trace as an SQLite database. */
#ifndef VT_SQLITE_H
#define VT_SQLITE_H

#include "report/tables.h"

struct sqlite3;

/* All tables in memory, as vt_sqlite_write writes them to a file; sqlite3_close ends it. 0, -ENOMEM, -EIO. */
int vt_sqlite_make(struct vt_tables *tables, struct sqlite3 **database);

#endif
