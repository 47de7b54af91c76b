/* Writers of other tools' formats: a whole trace, or the memory alive at the moment that a report shows. */
#ifndef VT_EXPORTS_H
#define VT_EXPORTS_H

#include <stdio.h>

#include "report/tables.h"

/* What is exported, and where to. */
struct vt_export {
    const struct vt_report *report;
    struct vt_tables *tables;
    FILE *stream;
    const char *path; /* the file that `stream` writes, under its temporary name; NULL = a pipe or terminal.
                         Of formats that are a folder: that folder, which is empty, and `stream` is NULL */
    unsigned table;   /* of vt_csv_table_write */
};

/* 0 or -errno. Failed writes of the stream may be left to its error flag. */
typedef int vt_export_writer(const struct vt_export *export);

vt_export_writer vt_folded_write, vt_perfetto_write, vt_pprof_write, vt_speedscope_write;
vt_export_writer vt_csv_write, vt_csv_table_write; /* a folder with all tables; one of them */
vt_export_writer vt_sqlite_write;                  /* opens `path` itself */
vt_export_writer vt_memory_viz_write;              /* what python/vramtrace/memory_viz.py reads; needs
                                                      fragmentation of what is shown */

#endif
