"""Turns the tables that `vramtrace export --format csv` wrote into Parquet files, with pyarrow.

    python -m vramtrace.parquet [--trace NAME] FOLDER

Each FOLDER/TABLE.csv becomes FOLDER/TABLE.parquet. The first column of each, `trace`, is NAME, so that the tables of
several traces can be read as one. A column's meaning and unit are in its metadata (docs/results/columns.md).
"""
import argparse
import csv
import os
import resource
import sys
from typing import Any, Dict, Iterator, List, NoReturn

NOT_WRITTEN, OUT_OF_MEMORY = 4, 5
SIGNED_UNITS = ("bytes", "ns", "count")
Tables = Dict[str, List[Dict[str, str]]]


def fail(message: str, status: int = NOT_WRITTEN) -> NoReturn:
    print(f"vramtrace export: {message}", file=sys.stderr)
    sys.exit(status)


def type_of(column: Dict[str, str]) -> Any:
    """Of a row of columns.csv. What is added and subtracted is signed: a difference of unsigned numbers wraps in pandas, and DuckDB
    refuses it."""
    import pyarrow
    types = {"integer": pyarrow.int64(), "unsigned": pyarrow.uint64(), "real": pyarrow.float64(),
             "boolean": pyarrow.bool_(), "text": pyarrow.string()}
    return types["integer" if column["unit"] in SIGNED_UNITS else column["type"]]


def read_columns(folder: str) -> Tables:
    """{table: [its columns' rows in columns.csv]}, in order."""
    tables: Tables = {}
    with open(os.path.join(folder, "columns.csv"), encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            tables.setdefault(row["table_name"], []).append(row)
    return tables


def schema_of(columns: List[Dict[str, str]]) -> Any:
    import pyarrow
    fields = [pyarrow.field("trace", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()), nullable=False,
                            metadata={"about": "the trace's file name"})]
    fields += [pyarrow.field(column["column_name"], type_of(column),
                             metadata={key: column[key] for key in ("about", "unit") if column[key]})
               for column in columns]
    return pyarrow.schema(fields, metadata={"vramtrace.table": columns[0]["table_name"]})


def read_batches(path: str, schema: Any, trace: str) -> Iterator[Any]:
    """The rows of a CSV file, some at a time: a table may be larger than memory."""
    import pyarrow
    from pyarrow import csv as arrow_csv
    convert = arrow_csv.ConvertOptions(column_types={field.name: field.type for field in schema if field.name != "trace"},
                                       null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False,
                                       true_values=["true"], false_values=["false"])
    for batch in arrow_csv.open_csv(path, convert_options=convert, read_options=arrow_csv.ReadOptions(block_size=1 << 24),
                                    parse_options=arrow_csv.ParseOptions(newlines_in_values=True)):
        name = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * len(batch), pyarrow.int32()), [trace])
        yield pyarrow.record_batch([name, *batch.columns], schema=schema)


def convert(path: str, target: str, trace: str, columns: List[Dict[str, str]]) -> None:
    from pyarrow import parquet
    schema = schema_of(columns)
    with parquet.ParquetWriter(target, schema, compression="zstd") as writer:
        for batch in read_batches(path, schema, trace):
            writer.write_batch(batch)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m vramtrace.parquet", description="Turns tables in CSV into Parquet files.")
    parser.add_argument("--trace", default="", metavar="NAME", help="what the column `trace` says")
    parser.add_argument("folder", metavar="FOLDER")
    arguments = parser.parse_args()
    try:
        import pyarrow
    except ImportError:
        fail(f"Parquet needs pyarrow, which {sys.executable} does not have: {sys.executable} -m pip install pyarrow, or set "
             "VRAMTRACE_PYTHON to a Python that has it")
    trace = os.fsencode(os.path.basename(arguments.trace)).decode("utf-8", "replace")
    try:
        for table, columns in read_columns(arguments.folder).items():
            path = os.path.join(arguments.folder, table)
            convert(f"{path}.csv", f"{path}.parquet", trace, columns)
            os.remove(f"{path}.csv")
    except MemoryError:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        fail(f"out of memory with {used:.2f} GiB in use; raise the limit (ulimit -v, container), or use a machine with more memory",
             OUT_OF_MEMORY)
    except (OSError, pyarrow.ArrowException) as error:
        fail(f"cannot write Parquet in {arguments.folder}: {error}")


if __name__ == "__main__":
    main()
