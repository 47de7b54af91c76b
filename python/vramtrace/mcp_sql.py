"""SELECT over the tables of a trace for `vramtrace mcp`: reading only, bounded in time, memory and rows."""
import math
import os
import sqlite3
import time
from typing import Any

from .mcp_traces import Failure, clean

SQL_SECONDS, SQL_MEMORY_BYTES = 5, 256 << 20
SQL_STEPS = 16  # of SQLite's machine between looks at the clock: one may search a long text
LOOK_SECONDS = 0.005  # between looks at the process's memory, of which SQLite counts its own part only
SQL_TEXT_BYTES = 256 << 10  # of a text: instr() and LIKE take up to that squared
TEXT_CELL, DATA_CELL, LIST_CELL = 160, 2000, 1000  # letters of a cell as text, as data, and of a table's columns in the list
DATA_BYTES = 16384  # of all cells as data: then the rest is left out

# The columns of a view are those of a table, or are told here.
VIEW = "INSERT INTO columns SELECT '{}', column_name, type, unit, about FROM columns WHERE table_name = 'allocations';"
VIEWS = (VIEW.format("alive_at_peak") + VIEW.format("alive_at_end") +
         "INSERT INTO columns VALUES ('stack_texts', 'stack', 'unsigned', 'id', 'the stack'),"
         "('stack_texts', 'text', 'text', NULL, 'its frames, a line each, the innermost first');")
# The same for the last out of memory, if there is one.
VIEW_AT_OOM = (
    "CREATE VIEW alive_at_oom AS SELECT * FROM allocations WHERE device = {0} AND alloc_event <= {1} AND "
    "(free_event IS NULL OR free_event > {1});" + VIEW.format("alive_at_oom").replace("{", "{{").replace("}", "}}"))
# Columns of states are listed once, with the table instants.
STATE = ("substr(column_name, 1, length('{0}')) = '{0}' AND substr(column_name, length('{0}') + 1) IN "
         "(SELECT column_name FROM columns WHERE table_name = 'instants')")
LIST_OF_TABLES = (
    "SELECT table_name AS \"table\", CASE WHEN table_name LIKE 'alive_at_%' THEN 'as allocations' ELSE "
    "group_concat(column_name, ', ') FILTER (WHERE NOT is_state) || CASE WHEN max(is_state) THEN "
    "'; peak_ and end_ with the columns of instants' ELSE '' END END AS columns FROM (SELECT rowid AS number, "
    f"table_name, column_name, {STATE.format('peak_')} OR {STATE.format('end_')} AS is_state FROM columns ORDER BY rowid) "
    "GROUP BY 1 ORDER BY min(number)")


def authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
        return sqlite3.SQLITE_OK
    allowed = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in ("load_extension", "fts3_tokenizer")
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def add_views(path: str) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + VIEWS)
        for failed in database.execute("SELECT device, event FROM out_of_memory ORDER BY event DESC LIMIT 1").fetchall():
            database.executescript(VIEW_AT_OOM.format(*failed))
    finally:
        database.close()


def open_database(path: str) -> sqlite3.Connection:
    """No statement can change it, or touch a file."""
    add_views(path)
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    database.text_factory = lambda text: text.decode("utf-8", "replace")
    database.execute(f"PRAGMA hard_heap_limit = {SQL_MEMORY_BYTES}")
    database.execute("PRAGMA temp_store = MEMORY")
    database.execute("PRAGMA query_only = ON")
    for limit, value in ((sqlite3.SQLITE_LIMIT_LENGTH, SQL_TEXT_BYTES), (sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
                         (sqlite3.SQLITE_LIMIT_SQL_LENGTH, 64 << 10), (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
                         (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)):
        database.setlimit(limit, value)
    database.set_authorizer(authorize)
    return database


def cell(value: Any, letters: int) -> tuple[str, Any]:
    """As text and as data."""
    if isinstance(value, float):
        return f"{value:.6g}", value if math.isfinite(value) else None
    if isinstance(value, str):
        return clean(value, letters), clean(value, max(letters, DATA_CELL), False)
    if isinstance(value, bytes):
        return (f"blob of {len(value)} bytes",) * 2
    return "" if value is None else str(value), value


def select(database: sqlite3.Connection, query: str, most: int, letters: int) -> tuple[str, dict[str, Any]]:
    cursor = database.execute(query)
    if cursor.description is None:
        raise Failure("not a query: give one SELECT")
    titles = [clean(column[0], DATA_CELL) for column in cursor.description]
    lines = [" | ".join(clean(title, TEXT_CELL) for title in titles)]
    rows: list[list[Any]] = []
    size, more = 0, False
    for row in cursor:
        more = len(rows) == most or size > DATA_BYTES
        if more:
            break
        cells = [cell(value, letters) for value in row]
        lines.append(" | ".join(text for text, _ in cells))
        rows.append([data for _, data in cells])
        size += sum(8 + len(data.encode()) if isinstance(data, str) else 8 for _, data in cells)
    lines += ["… more rows: use LIMIT and OFFSET"] if more else [] if rows else ["no rows"]
    return "\n".join(lines) + "\n", {"columns": titles, "rows": rows, "more": more}


def resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Watch:
    """Ends a query that takes too long, or too much memory."""

    def __init__(self) -> None:
        self.next_look = time.monotonic()
        self.deadline, self.most_bytes = self.next_look + SQL_SECONDS, resident_bytes() + SQL_MEMORY_BYTES
        self.too_late = self.too_big = False

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self.next_look:
            return False
        self.next_look = now + LOOK_SECONDS
        self.too_late, self.too_big = now > self.deadline, resident_bytes() > self.most_bytes
        return self.too_late or self.too_big


def run_query(database: sqlite3.Connection, query: str | None, most: int, letters: int | None) -> tuple[str, dict[str, Any]]:
    """The first rows of one SELECT; without a query, the tables with their columns."""
    watch = Watch()
    database.set_progress_handler(watch, SQL_STEPS)
    try:
        return select(database, LIST_OF_TABLES if query is None else query, most, letters or (LIST_CELL if query is None else TEXT_CELL))
    except (MemoryError, sqlite3.DataError):
        raise Failure("the query needs too much memory: narrow it down") from None
    except (sqlite3.Error, sqlite3.Warning) as error:
        if watch.too_big:
            raise Failure("the query needs too much memory: narrow it down") from None
        if watch.too_late:
            raise Failure(f"the query timed out after {SQL_SECONDS} s: narrow it down") from None
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_AUTH:
            raise Failure(f"only SELECT is allowed here: {error}") from None
        if "one statement at a time" in str(error):
            raise Failure("one statement at a time") from None
        raise Failure(f"{error}; without `query` the tool lists tables and columns, SELECT * FROM columns explains them") from None
