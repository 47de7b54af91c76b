#!/usr/bin/env python3
"""Prints docs/results/columns.md: docs/make_tables.py PROGRAM TRACE, where PROGRAM is vramtrace and TRACE any trace.
With --write it writes that file.

What columns are comes from the program (which has it from analyzer/report/schema.def), what tables are from schema.def.
"""
import csv
import io
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE / "results" / "columns.md"
SCHEMA = HERE.parent / "analyzer" / "report" / "schema.def"
TITLE = ("# The tables of `vramtrace export` and their columns\n\nMade by `docs/make_tables.py PROGRAM TRACE --write` from "
         "`analyzer/report/schema.def`; a test holds it equal to the program's.\n\n")


def columns_of(program, trace):
    """[(table, [rows of the table `columns`])], in order."""
    text = subprocess.check_output([program, "export", "--format", "csv", "--table", "columns", trace], text=True)
    tables = {}
    for row in csv.DictReader(io.StringIO(text)):
        tables.setdefault(row["table_name"], []).append(row)
    return list(tables.items())


def about_of(table):
    return re.search(rf'^OBJECT\({table}, [^"]*"((?:[^"\\]|\\.)*)"\)', SCHEMA.read_text(), re.M).group(1)


def described(program, trace):
    """The page."""
    parts = []
    for table, columns in columns_of(program, trace):
        rows = "".join(f"| `{row['column_name']}` | {row['type']} | {row['unit']} | {row['about']} |\n" for row in columns)
        parts.append(f"## {table}\n\n{about_of(table)}\n\n| column | type | unit | meaning |\n|---|---|---|---|\n{rows}")
    return TITLE + "\n".join(parts)


def main(words):
    write = "--write" in words
    program, trace = [word for word in words if word != "--write"]
    made = described(program, trace)
    if not write:
        print(made, end="")
        return
    PAGE.write_text(made)


if __name__ == "__main__":
    main(sys.argv[1:])
