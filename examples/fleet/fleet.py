#!/usr/bin/env python3
"""Makes Parquet tables of thousands of traces, on the workers of a Dask cluster, or in parts by a Slurm job array.

    fleet.py -o TABLES FOLDER|URL...                           a cluster of its own on this machine
    fleet.py -o TABLES --scheduler tcp://host:8786 URL...      an existing Dask cluster
    fleet.py -o TABLES --shard 3/16 FOLDER...                  the fourth of 16 parts, without Dask (fleet.sbatch)

Each trace goes through `vramtrace export --summary`. TABLES, which all workers see, gets a folder part=ID for about --part
traces, complete or not there at all, with trace.parquet, devices.parquet, peak.parquet, leaks.parquet and
out_of_memory.parquet (docs/results/columns.md), and files.parquet: a row for each trace, also for one that could not be read, with the
reason. What is there already is not made again: start it again to go on. The program `vramtrace` is in PATH (or VRAMTRACE
names it), its Python module and pyarrow are installed where the workers run.
"""
import argparse
import collections
import contextlib
import fnmatch
import hashlib
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import uuid
import zlib

FLUSH_BYTES = 16 << 20  # of a table that a worker holds
File = collections.namedtuple("File", "path remote bytes changed")  # remote: None, or (URL that was named, path there)


# ---- What there is to do ----

def list_folder(root, errors):
    """{path: facts} of a folder or a file of this machine."""
    paths = [root] if not os.path.isdir(root) else [
        os.path.join(folder, name) for folder, _, names in os.walk(root, onerror=errors.append) for name in names]
    facts = {}
    for path in paths:
        with contextlib.suppress(OSError):  # a link to nothing: reading it says so
            status = os.stat(path)
            facts[path] = {"size": status.st_size, "mtime": status.st_mtime_ns}
    return {path: facts.get(path, {}) for path in paths}


def find_files(places, pattern):
    """(all traces below folders and URLs, by path; what could not be looked into)"""
    import fsspec
    found, errors = {}, []
    for place in places:
        system, root = fsspec.core.url_to_fs(place)
        local = "file" in system.protocol or "local" in system.protocol
        if not system.exists(root):
            sys.exit(f"fleet: {place}: there is nothing of this name")
        listed = (list_folder(root, errors) if local else {root: system.info(root)} if system.isfile(root) else
                  system.find(root, detail=True))
        for path, facts in listed.items():
            if fnmatch.fnmatch(path.rsplit("/", 1)[-1], pattern):
                name = path if local or "::" in place else system.unstrip_protocol(path)
                changed = facts.get("mtime") or facts.get("LastModified") or facts.get("ETag") or facts.get("updated") or ""
                found[name] = File(name, None if local else (place, path), facts.get("size") or 0, str(changed))
    return [found[path] for path in sorted(found)], errors


def read_done(tables):
    """{path: (part, bytes, changed, read)} of all parts that are complete."""
    from pyarrow import parquet
    done = {}
    for path in pathlib.Path(tables).glob("part=*/files.parquet"):
        for row in parquet.read_table(path, columns=["trace", "bytes", "changed", "read"], partitioning=None).to_pylist():
            done[row["trace"]] = (path.parent.name, row["bytes"], row["changed"], row["read"])
    return done


def plan(files, options):
    """[(part, its files)] that are still to be made. A part in which a file has changed is made again as a whole."""
    done = read_done(options.out)
    stale = {done[file.path][0] for file in files if file.path in done
             and (done[file.path][1:3] != (file.bytes, file.changed) or (options.retry and not done[file.path][3]))}
    if stale and options.shard:
        print(f"fleet: traces of {len(stale)} parts have changed: run it once without --shard", file=sys.stderr)
        stale = set()
    for part in stale:
        shutil.rmtree(os.path.join(options.out, part))
    files = [file for file in files if file.path not in done or done[file.path][0] in stale]
    if options.shard:
        number, of = options.shard
        files = [file for file in files if zlib.crc32(os.fsencode(file.path)) % of == number]
    return [named(files[i:i + options.part]) for i in range(0, len(files), options.part)]


def named(files):
    """(part, files): the same name for the same files, whoever makes it."""
    return hashlib.sha256("\n".join(f"{file.path} {file.changed}" for file in files).encode()).hexdigest()[:16], files


# ---- One trace ----

def run_vramtrace(path, folder, options):
    """Why the trace could not be read; None = its tables are in `folder`."""
    command = [os.environ.get("VRAMTRACE", "vramtrace"), "export", "--format", "csv", "--summary", "-o", folder, path]
    if options.memory:
        command = ["prlimit", f"--as={options.memory}", *command]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=options.timeout, errors="replace")
    except subprocess.TimeoutExpired:
        return f"vramtrace took longer than {options.timeout} s"
    if not done.returncode:
        return None
    if done.returncode < 0:
        return f"vramtrace was killed by signal {-done.returncode}"
    said = (done.stderr.strip().splitlines() or [f"vramtrace ended with status {done.returncode}"])[-1]
    return said.removeprefix("vramtrace export: ").removeprefix(f"{path}: ")


def read_trace(file, folder, options):
    """(why it could not be read, {table: its rows})"""
    import pyarrow
    from vramtrace import parquet
    path, tables = file.path, os.path.join(folder, "tables")
    shutil.rmtree(tables, ignore_errors=True)
    if file.remote:
        import fsspec
        system, _ = fsspec.core.url_to_fs(file.remote[0])
        path = os.path.join(folder, "trace.vrt")
        try:
            system.get_file(file.remote[1], path)
        except Exception as error:  # each store has its own
            return f"cannot be copied here: {error or type(error).__name__}", {}
    reason = run_vramtrace(path, tables, options)
    if reason:
        return reason, {}
    found = {}
    for table, columns in parquet.read_columns(tables).items():
        if table == "columns":
            continue
        schema = parquet.schema_of(columns)
        found[table] = pyarrow.Table.from_batches(parquet.read_batches(f"{tables}/{table}.csv", schema, file.path), schema)
    return None, found


# ---- A part ----

class Part:
    """Parquet files that grow in a folder of another name until all are complete."""
    def __init__(self, name, out):
        self.target = os.path.join(out, f"part={name}")
        self.folder = os.path.join(out, ".unfinished", f"{name}-{uuid.uuid4().hex[:8]}")
        self.writers, self.held = {}, {}
        os.makedirs(self.folder)

    def add(self, table, rows):
        held = self.held.setdefault(table, [])
        held.append(rows)
        if sum(some.nbytes for some in held) > FLUSH_BYTES:
            self.flush(table)

    def flush(self, table):
        import pyarrow
        from pyarrow import parquet
        rows = pyarrow.concat_tables(self.held.pop(table)).unify_dictionaries()
        if table not in self.writers:
            self.writers[table] = parquet.ParquetWriter(os.path.join(self.folder, f"{table}.parquet"), rows.schema, compression="zstd")
        self.writers[table].write_table(rows)

    def finish(self):
        for table in list(self.held):
            self.flush(table)
        for writer in self.writers.values():
            writer.close()
        try:
            os.rename(self.folder, self.target)
        except OSError:
            if not os.path.isdir(self.target):  # else another worker, taken for dead, was faster
                raise
            shutil.rmtree(self.folder)


def files_schema():
    import pyarrow
    return pyarrow.schema([("trace", pyarrow.string()), ("read", pyarrow.bool_()), ("reason", pyarrow.string()),
                           ("label", pyarrow.string()), ("job", pyarrow.string()), ("rank", pyarrow.int32()),
                           ("bytes", pyarrow.int64()), ("changed", pyarrow.string()), ("seconds", pyarrow.float64())])


def row_of(file, reason, seconds, names):
    match = re.search(names, file.path) if names else None
    told = match.groupdict() if match else {}
    rank = told.get("rank")
    return {"trace": file.path, "read": reason is None, "reason": reason, "label": told.get("label"), "job": told.get("job"),
            "rank": int(rank) if rank and rank.isdecimal() else None, "bytes": file.bytes, "changed": file.changed, "seconds": seconds}


def scratch():
    """A folder that a Dask worker removes also if its process is killed; None = the system's."""
    try:
        from distributed import get_worker
        return get_worker().local_directory
    except (ImportError, ValueError):
        return None


def make_part(part, options, reason=None):
    """Makes the tables of some traces; with `reason`, only says that they could not be read. (how many, how many not read)"""
    import pyarrow
    name, files = part
    made, rows = Part(name, options.out), []
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        for file in files:
            begin = time.monotonic()
            why, tables = (reason, {}) if reason else read_trace(file, folder, options)
            for table, some in tables.items():
                made.add(table, some)
            rows.append(row_of(file, why, time.monotonic() - begin, options.names))
    made.add("files", pyarrow.Table.from_pylist(rows, files_schema()))
    made.finish()
    return len(rows), sum(not row["read"] for row in rows)


# ---- All ----

def each_here(parts, options):
    for part in parts:
        yield make_part(part, options)


def each_by_dask(parts, options, client):
    """Parts that workers did not survive, or that waited there, are made in the end, trace by trace, with nothing beside: so a
    trace that kills its workers is known."""
    from distributed import KilledWorker, as_completed

    def submit(part):
        return client.submit(make_part, part, options, key=f"part-{part[0]}", retries=2)
    part_of = {future: part for future, part in ((submit(part), part) for part in parts)}
    suspects = []
    for future in as_completed(list(part_of)):
        files = part_of.pop(future)[1]
        if isinstance(future.exception(), KilledWorker):
            suspects += files
        else:
            yield future.result()
    for part in [named([file]) for file in suspects]:
        try:
            yield submit(part).result()
        except KilledWorker:
            yield make_part(part, options, "the worker that read it was killed, several times")


def remove_unfinished(parts, out):
    """What workers that are gone left of these parts."""
    for name, _ in parts:
        for path in pathlib.Path(out, ".unfinished").glob(f"{name}-*"):
            shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # not there, or of others too
        os.rmdir(os.path.join(out, ".unfinished"))


def shard(text):
    number, of = map(int, text.split("/"))
    if not 0 <= number < of:
        raise ValueError
    return number, of


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("places", nargs="+", metavar="FOLDER|URL", help="where traces are; a URL of any kind that fsspec knows")
    parser.add_argument("-o", "--out", required=True, metavar="TABLES", help="folder of the tables")
    parser.add_argument("--scheduler", help="address of a Dask scheduler")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="of a cluster on this machine; 0: without Dask")
    parser.add_argument("--shard", type=shard, metavar="I/N", help="the I-th of N parts of all traces, from 0, without Dask")
    parser.add_argument("--part", type=int, default=64, help="traces of one folder of tables")
    parser.add_argument("--pattern", default="*.vrt", help="names of traces (*.vrt)")
    parser.add_argument("--names", default="", metavar="REGEX",
                        help="what a trace's path says: groups label, job and rank, as (?P<label>[^/]+)/(?P<job>[^/]+)/rank(?P<rank>\\d+)")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for one trace")
    parser.add_argument("--memory", type=int, default=0, metavar="BYTES", help="that vramtrace may take for one trace; 0: any")
    parser.add_argument("--retry", action="store_true", help="read again what could not be read")
    options = parser.parse_args(words)
    options.out = os.path.abspath(options.out)
    options.places = [place if urllib.parse.urlsplit(place).scheme else os.path.abspath(place) for place in options.places]
    return options


def main():
    options = parse(sys.argv[1:])
    needed = [] if options.scheduler else ["pyarrow", "vramtrace"]
    needed += ["distributed"] if options.scheduler or options.workers and not options.shard else []
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        print(f"fleet: Python has no {' and no '.join(missing)} here: pip install {' '.join(missing)}", file=sys.stderr)
        return 2
    os.makedirs(options.out, exist_ok=True)
    files, errors = find_files(options.places, options.pattern)
    for error in errors:
        print(f"fleet: {error}", file=sys.stderr)
    parts = plan(files, options)
    todo = sum(len(some) for _, some in parts)
    print(f"fleet: {len(files)} traces, {todo} to read, in {len(parts)} parts", flush=True)
    remove_unfinished(parts, options.out)
    if not parts:
        return 1 if errors else 0
    if options.shard or not (options.scheduler or options.workers):
        results = list(each_here(parts, options))
    else:
        from distributed import Client, LocalCluster
        cluster = None if options.scheduler else LocalCluster(n_workers=options.workers, threads_per_worker=1, dashboard_address=":0")
        with Client(options.scheduler or cluster) as client:
            results = list(each_by_dask(parts, options, client))
        if cluster:
            cluster.close()
    remove_unfinished(parts, options.out)
    unread = sum(count for _, count in results)
    print(f"fleet: {sum(count for count, _ in results)} read, {unread} of them could not be: see the column reason of files.parquet")
    return 1 if unread or errors else 0


if __name__ == "__main__":
    sys.exit(main())
