#!/usr/bin/env python3
"""Sums up what fleet.py made: peaks by job, rank, model and line, what could not be read, and what grew between two versions.

    reduce.py TABLES [--compare OLD NEW] [--top N] [--sql QUERY]

Prints tables, and writes each to TABLES/results/NAME.parquet. Needs DuckDB. The views that the queries use are there for --sql too.
"""
import argparse
import glob
import os
import sys

import duckdb

TABLES = ("files", "trace", "devices", "peak", "leaks", "out_of_memory")
# whole: no event is lost; else the figures are lower limits. label, job and rank: by the trace's path where fleet.py was told
# how, else by VRAMTRACE_LABEL, the launcher and the folder.
RUNS = """
CREATE VIEW runs AS SELECT trace, coalesce(f.label, t.label) AS label,
    coalesce(f.job, t.run, regexp_extract(trace, '([^/]+)/[^/]+$', 1)) AS job, coalesce(f.rank, nullif(t.rank, -1)) AS rank,
    model, script, host, steps, complete, loss, NOT truncated AND dropped = 0 AS whole, ended_by_out_of_memory, start_realtime_ns, duration_ns,
    peak_used_bytes, peak_block_bytes, reserved_peak_bytes, driver_peak_bytes, leaks, leaks_bytes_per_step
FROM trace t JOIN files f USING (trace) LEFT JOIN (
    SELECT trace, max(peak_used_bytes) AS peak_used_bytes, max(peak_block_bytes) AS peak_block_bytes,
        max(reserved_peak_bytes) AS reserved_peak_bytes, max(driver_peak_bytes) AS driver_peak_bytes,
        sum(leaks)::BIGINT AS leaks, sum(leaks_bytes_per_step)::BIGINT AS leaks_bytes_per_step
    FROM devices GROUP BY trace) USING (trace)
"""
# What each line held of each trace's peak, on its fullest device.
LINES = """
CREATE VIEW lines AS SELECT trace, place_file, place_line, place_name, place_function, category, max(bytes) AS bytes FROM (
    SELECT trace, device, place_file, place_line, place_name, place_function, category, sum(bytes)::BIGINT AS bytes
    FROM peak WHERE place_name IS NOT NULL GROUP BY ALL) GROUP BY ALL
"""
PEAKS = """count(*) AS traces, max(peak_used_bytes) AS peak_bytes, median(peak_used_bytes) FILTER (whole)::BIGINT AS median_peak_bytes,
    max(reserved_peak_bytes) AS reserved_peak_bytes, count(*) FILTER (ended_by_out_of_memory) AS out_of_memory,
    sum(leaks)::BIGINT AS leaks, count(*) FILTER (loss IS NOT NULL) AS with_losses"""
RESULTS = {
    "by_job": ("Peak by job", f"""SELECT label, job, {PEAKS} FROM runs GROUP BY label, job ORDER BY peak_bytes DESC NULLS LAST, label, job"""),
    "by_rank": ("Peak by rank", """SELECT label, job, rank, max(peak_used_bytes) AS peak_bytes, max(peak_used_bytes)
        / nullif(median(max(peak_used_bytes)) OVER (PARTITION BY label, job), 0) AS of_median, any_value(host) AS host
        FROM runs WHERE rank IS NOT NULL GROUP BY label, job, rank ORDER BY of_median DESC NULLS LAST, peak_bytes DESC, label, job, rank"""),
    "by_model": ("Peak by model", f"""SELECT label, model, {PEAKS} FROM runs WHERE model IS NOT NULL GROUP BY label, model
        ORDER BY peak_bytes DESC, label, model"""),
    "by_line": ("Lines that hold most of the peaks", """SELECT place_name AS line, category, count(*) AS traces, max(bytes) AS bytes,
        median(bytes)::BIGINT AS median_bytes, any_value(place_file) AS file FROM lines GROUP BY place_file, place_line, place_name, category
        ORDER BY bytes DESC, line, category"""),
    "leaks": ("Leaks", """SELECT label, job, verdict, place_name AS line, holder, count(*) AS traces,
        max(l.bytes_per_step) AS most_per_step_bytes FROM leaks l JOIN runs USING (trace) WHERE is_leak
        GROUP BY ALL ORDER BY most_per_step_bytes DESC"""),
    "out_of_memory": ("Out of memory", """SELECT label, job, rank, requested_bytes, o.phase, requested_by, trace FROM out_of_memory o
        JOIN runs USING (trace) WHERE ends_run ORDER BY requested_bytes DESC, trace"""),
    "losses": ("Traces that something is missing of: their figures are lower limits",
        "SELECT trace, loss FROM runs WHERE loss IS NOT NULL ORDER BY trace"),
    "unread": ("Not read", "SELECT trace, reason FROM files WHERE NOT read ORDER BY trace"),
}
# Of each job, what the two versions had: the median of its traces. A line is known by its function, since lines move.
COMPARED = {
    "changed_jobs": ("Jobs, from $old to $new", """SELECT *, new_bytes - old_bytes AS change_bytes FROM (SELECT job,
        median(peak_used_bytes) FILTER (label = $old)::BIGINT AS old_bytes, median(peak_used_bytes) FILTER (label = $new)::BIGINT AS new_bytes
        FROM runs WHERE whole AND label IN ($old, $new) GROUP BY job) WHERE old_bytes <> new_bytes ORDER BY change_bytes DESC, job"""),
    "changed_lines": ("What made the difference", """SELECT job, function, file, category, coalesce(old_bytes, 0) AS old_bytes,
        coalesce(new_bytes, 0) AS new_bytes, coalesce(new_bytes, 0) - coalesce(old_bytes, 0) AS change_bytes FROM (
            SELECT job, place_function AS function, regexp_extract(place_file, '[^/]*$') AS file, category,
                median(bytes) FILTER (label = $old)::BIGINT AS old_bytes, median(bytes) FILTER (label = $new)::BIGINT AS new_bytes
            FROM (SELECT trace, place_function, place_file, category, sum(bytes) AS bytes FROM lines GROUP BY ALL) JOIN runs USING (trace)
            WHERE whole AND label IN ($old, $new) GROUP BY ALL)
        WHERE job IN (SELECT job FROM runs WHERE label = $old INTERSECT SELECT job FROM runs WHERE label = $new)
            AND coalesce(old_bytes, 0) <> coalesce(new_bytes, 0)
        ORDER BY abs(change_bytes) DESC, job, function LIMIT 1000"""),
}


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def connect(tables):
    """A database with a view of each table, and `runs` and `lines`."""
    database = duckdb.connect()
    for table in TABLES:
        files = os.path.join(tables, "part=*", f"{table}.parquet")
        if not glob.glob(files):
            sys.exit(f"reduce: {tables} has no {table}.parquet: fleet.py makes them, of traces that can be read")
        database.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet({quoted(files)}, hive_partitioning = true, union_by_name = true)")
    database.execute(RUNS)
    database.execute(LINES)
    return database


def shown(name, value):
    if value is None:
        return ""
    if name.endswith("bytes"):
        return f"{value / (1 << 30):,.2f} GiB" if abs(value) >= 1 << 30 else f"{value / (1 << 20):.2f} MiB"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def print_table(title, result, top):
    columns, rows = [column[0] for column in result.description], result.fetchmany(top)
    if not rows:
        return
    cells = [[name.removesuffix("_bytes") for name in columns]]
    cells += [[shown(name, value) for name, value in zip(columns, row)] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    numbers = [all(not isinstance(row[i], str) for row in rows) for i in range(len(widths))]
    print(f"\n{title}")
    for row in cells:
        print("  " + "  ".join(cell.rjust(width) if number else cell.ljust(width)
                               for cell, width, number in zip(row, widths, numbers)).rstrip())
    more = len(result.fetchall())
    if more:
        print(f"  … {more} more")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", metavar="TABLES")
    parser.add_argument("--compare", nargs=2, metavar=("OLD", "NEW"), help="two labels")
    parser.add_argument("--top", type=int, default=10, help="rows to print of each table")
    parser.add_argument("--sql", metavar="QUERY", help="print the answer to this instead")
    options = parser.parse_args()
    database = connect(options.tables)
    if options.sql:
        print_table(options.sql, database.execute(options.sql), options.top)
        return
    results = os.path.join(options.tables, "results")
    os.makedirs(results, exist_ok=True)
    words = dict(zip(("old", "new"), options.compare or ()))
    for name, (title, query) in {**RESULTS, **(COMPARED if words else {})}.items():
        for word, label in words.items():
            title, query = title.replace(f"${word}", label), query.replace(f"${word}", quoted(label))
        path, unfinished = os.path.join(results, f"{name}.parquet"), os.path.join(results, f".{name}.unfinished")
        database.execute(f"CREATE TABLE result_{name} AS {query}")
        database.execute(f"COPY result_{name} TO {quoted(unfinished)} (FORMAT parquet, COMPRESSION zstd)")
        os.replace(unfinished, path)
        print_table(title, database.execute(f"FROM result_{name}"), options.top)


if __name__ == "__main__":
    sys.exit(main())
