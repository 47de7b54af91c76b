"""Every byte of a card in one row: the table of `report`, against the stand-in driver's books, to the byte."""
import json
import subprocess
import sys

import pytest

from trace_file import ALLOC, DRIVER, FREE, MEMORY_INFO, TraceFile
from harness import ANALYZER, HERE, LIBRARIES, STANDIN, environment

MIB = 1 << 20
CARD = [sys.executable, HERE / "programs" / "card.py"]
PAUSE = "sleep:0.6"  # some samples


def start(trace, *steps, libraries=None, **extra):
    """A process of card.py; trace None: without the recorder."""
    env = environment(LIBRARIES["trace"] if trace else None, VRAMTRACE_OUT=trace, VRAMTRACE_STANDIN_MODULE="3MiB",
                      VRAMTRACE_STANDIN_CONTEXT="300MiB", VRAMTRACE_STANDIN_MEMORY="16GiB", **extra)
    if libraries:
        env["LD_LIBRARY_PATH"] = str(libraries)
    return subprocess.Popen([str(part) for part in (*CARD, *steps)], env=env, text=True, stdout=subprocess.PIPE)


def finish(*processes):
    output = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * len(processes)
    return output


def read(trace, *options):
    report = json.loads(subprocess.check_output([ANALYZER, "report", "--json", *options, trace], text=True))
    (device,) = report["devices"]
    return device


def rows(table):
    """Bytes by kind, and of processes by pid; the sum is checked."""
    assert sum(row["bytes"] for row in table["rows"]) == table["device_bytes"]
    found = {}
    for row in table["rows"]:
        key = row.get("pid") or row["kind"]
        found[key] = found.get(key, 0) + row["bytes"]
    return found


def told(table):
    return {row["kind"]: row["bytes"] for row in table["told"]}


def test_one_process(tmp_path):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", "sleep:0.5", "module", "module", f"limit:{20 << 20}", "host:5", "alloc:60", PAUSE,
                 f"truth:{books}", VRAMTRACE_STANDIN_RESERVED=str(500 * MIB)))
    books = json.loads(books.read_text())
    device = read(trace)
    for table in (device["card"], device["last_card"]):
        assert table["source"] == "nvml" and table["steady"] and table["processes_known"] and not table["moved_bytes"]
        assert table["device_bytes"] == books["own"] and table["total_bytes"] == (16 << 30) + 500 * MIB
        assert rows(table) == {"category": 100 * MIB, "modules": 6 * MIB, "settings": 12 * MIB, "context": 300 * MIB,
                               "unexplained": 0}
        assert told(table) == {"host": books["host"], "reserved": 500 * MIB}
    assert (books["allocation"], books["module"], books["limit"], books["context"]) == (
        100 * MIB, 6 * MIB, 12 * MIB, 300 * MIB)


def test_memory_of_graphs(tmp_path):
    """Of nodes that allocate: what the driver's books have as a pool's, since the program has none of its own."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", "graph:24", PAUSE, f"truth:{books}"))
    books, table = json.loads(books.read_text()), read(trace)["last_card"]
    found = rows(table)
    assert table["device_bytes"] == books["own"] and found["graph_memory"] == books["pool"] >= 24 * MIB
    assert found["category"] == 40 * MIB and found["unexplained"] == 0


LIBRARY = """
extern int cuMemAlloc_v2(unsigned long long *, unsigned long), cuModuleLoadData(void **, const char *);
int take_memory(void)
{
    unsigned long long address;
    void *module;
    int result = cuMemAlloc_v2(&address, 9 << 20);
    return result ? result : cuModuleLoadData(&module, "image");
}
"""


def test_memory_that_libraries_take(tmp_path):
    """By the name of the library that called CUDA, its kernels too; one that nobody knows is the program's."""
    trace, books, source = tmp_path / "a.vrt", tmp_path / "books", tmp_path / "library.c"
    source.write_text(LIBRARY)
    libraries = [tmp_path / name for name in ("libnccl.so.2", "libcublasLt.so.13", "libmine.so")]
    for library in libraries:
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, f"-L{STANDIN}", "-l:libcuda.so.1"], check=True)
    finish(start(trace, "alloc:40", *(f"library:{library}" for library in (*libraries, libraries[0])), PAUSE,
                 f"truth:{books}"))
    books = json.loads(books.read_text())
    table = read(trace)["last_card"]
    assert [(row["kind"], row["name"], row["bytes"] // MIB) for row in table["rows"]] == [
        ("library", "NCCL", 18), ("library", "cuBLAS", 9), ("category", "unknown", 49), ("modules", "NCCL", 6),
        ("modules", "cuBLAS", 3), ("modules", "libmine.so", 3), ("context", None, 300), ("unexplained", None, 0)]
    assert sum(rows(table).values()) == books["own"]


def test_two_traced_processes_and_one_that_is_not(tmp_path):
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    traces = [tmp_path / "a.vrt", tmp_path / "b.vrt"]
    books = [tmp_path / name for name in ("a", "b", "c")]
    handle, end = tmp_path / "handle", tmp_path / "end"
    finishing = [f"wait:{end}"]
    processes = [
        start(traces[0], "alloc:40", f"export:{handle}", "module", *finishing, PAUSE, f"truth:{books[0]}", **shared),
        start(traces[1], f"open:{handle}", "alloc:80", *finishing, PAUSE, f"truth:{books[1]}", **shared),
        start(None, f"wait:{handle}", "alloc:160", "sleep:0.8", f"ready:{end}", PAUSE, "sleep:1", f"truth:{books[2]}",
              **shared)]
    finish(*processes)
    books = [json.loads(path.read_text()) for path in books]
    whole = books[2]["own"] + sum(book["own"] for book in books[:2])
    for mine, other, trace in ((books[0], books[1], traces[0]), (books[1], books[0], traces[1])):
        tables = read(trace)["card"], read(trace)["last_card"]
        found = rows(tables[0])
        assert tables[0]["device_bytes"] == whole
        assert found == {"category": mine["allocation"], **({"modules": mine["module"]} if mine["module"] else {}),
                         "context": mine["context"], other["pid"]: other["own"], books[2]["pid"]: books[2]["own"],
                         "unexplained": 0}
        commands = {row["pid"]: row["command"] for row in tables[0]["rows"] if row["kind"] == "process"}
        assert "card.py" in commands[books[2]["pid"]]
        # exported memory counts once, where it was made
        assert told(tables[0]) == ({} if mine is books[0] else {"foreign": 7 * MIB})
    assert books[0]["allocation"] == 47 * MIB and books[1]["allocation"] == 80 * MIB


@pytest.fixture(params=["none", "switched off", "fails", "no-permission"])
def without(request, tmp_path):
    if request.param == "switched off":
        return {"VRAMTRACE_NVML": "0"}
    if request.param != "none":
        return {"VRAMTRACE_STANDIN_NVML": request.param}
    folder = tmp_path / "libraries"
    folder.mkdir()
    for library in STANDIN.glob("*.so*"):
        if library.is_file() and "nvidia-ml" not in library.name:
            (folder / library.name).symlink_to(library)
    return {"libraries": folder}


def test_without_nvml(tmp_path, without):
    """What was there before is one row, what comes later is not explained."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    trace, early, late, books = (tmp_path / name for name in ("a.vrt", "early", "late", "books"))
    others = [start(None, "alloc:10", f"ready:{early}", f"wait:{books}", **shared),
              start(None, f"wait:{late}", "alloc:20", f"ready:{late}er", f"wait:{books}", **shared)]
    # the second one has a context before the first allocation, and more after it
    one = start(trace, f"wait:{early}", "sleep:0.3", "alloc:40", f"ready:{late}", f"wait:{late}er", "sleep:0.1", "alloc:50",
                PAUSE, f"truth:{books}", **shared, **without)
    finish(one, *others)
    books = json.loads(books.read_text())
    table = read(trace)["last_card"]
    assert table["source"] == ("nvml" if without.get("VRAMTRACE_STANDIN_NVML") == "no-permission" else "driver")
    assert table["processes_known"] is False and table["device_bytes"] == books["own"] + books["others"]
    assert rows(table) == {"category": 90 * MIB, "context_and_processes": 3 * 300 * MIB + 10 * MIB, "unexplained": 20 * MIB}


def test_old_nvml(tmp_path):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_NVML="old"))
    table = read(trace)["last_card"]
    assert table["device_bytes"] == json.loads(books.read_text())["own"] == 340 * MIB
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, "unexplained": 0} and table["processes_known"]


def test_beside_a_host_that_uses_nvml(tmp_path):
    """It has its own library and descriptors, and sees none of ours."""
    trace = tmp_path / "a.vrt"
    (output,) = finish(start(trace, "alloc:40", "nvml:0.4", "alloc:3", "nvml:0.4", "alloc:3", "nvml:0.4"))
    assert "nvml copies True" in output
    table = read(trace)["last_card"]
    assert table["source"] == "nvml" and rows(table)["unexplained"] == 0


def test_text(tmp_path):
    trace = tmp_path / "a.vrt"
    finish(start(trace, "alloc:40", "module", PAUSE))
    text = subprocess.check_output([ANALYZER, "report", trace], text=True)
    table = text[text.index("All of the card"):]
    for line in ("unknown", "kernels and modules of ", "CUDA context", "unexplained", "in use"):
        assert line in table
    assert "40.00 MiB" in table and "343.00 MiB" in table and "300.00 MiB" in table


# ---- Made by hand: what does not fit together ----

GIB = 1 << 30
NOT_TOLD = (1 << 64) - 1


def made(tmp_path, fill):
    """A process with a context of 300 MiB beside 100 MiB of others', which then has 40 MiB."""
    trace = TraceFile()
    trace.event(MEMORY_INFO, DRIVER, size=16 * GIB - 400 * MIB, total=16 * GIB)
    trace.event(ALLOC, DRIVER, 0x1000000, 40 * MIB)
    fill(trace)
    trace.write(tmp_path / "made.vrt")
    return read(tmp_path / "made.vrt")


def test_a_moment_without_a_reading_of_its_own(tmp_path):
    """What the others have is as when it was told; the sum is moved by what this process had more or less."""
    def fill(trace):
        trace.card_use(450 * MIB, [(7, 340 * MIB, b"me"), (8, 110 * MIB, b"you")], own=0)
        trace.event(ALLOC, DRIVER, 0x8000000, 60 * MIB, after_ns=60_000_000)
        trace.event(FREE, DRIVER, 0x8000000, after_ns=60_000_000)
    device = made(tmp_path, fill)
    for table, moved in ((device["card"], 60 * MIB), (device["last_card"], 0)):
        assert table["moved_bytes"] == moved and table["device_bytes"] == 450 * MIB + moved and table["steady"]
        assert rows(table) == {"category": 40 * MIB + moved, "context": 300 * MIB, 8: 110 * MIB, "unexplained": 0}


def test_a_reading_while_memory_changes(tmp_path):
    """It is taken only if there is no other, and said to be unsteady."""
    def fill(trace):
        trace.card_use(440 * MIB, [(7, 340 * MIB, b"me")], own=0, begin_ns=trace.t_ns + 1000)
        steady.append(trace.t_ns)
        if len(steady) > 1:
            trace.card_use(345 * MIB, [(7, 345 * MIB, b"me")], own=0)
    steady = []
    table = made(tmp_path, fill)["card"]
    assert not table["steady"] and table["device_bytes"] == 440 * MIB and table["processes_known"]
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, "unexplained": 100 * MIB}
    table = made(tmp_path, fill)["card"]
    assert table["steady"] and table["device_bytes"] == 345 * MIB
    assert rows(table) == {"category": 40 * MIB, "context": 305 * MIB, "unexplained": 0}


def test_more_is_known_than_was_in_use(tmp_path):
    """Silent memory that went away: unexplained is negative, and the sum holds."""
    def fill(trace):
        trace.card_use(440 * MIB, [(7, 340 * MIB, b"me"), (8, 100 * MIB, b"")], own=0)
        trace.card_use(420 * MIB, [(7, 320 * MIB, b"me"), (8, 100 * MIB, b"")], own=0, begin_ns=trace.t_ns + 90_000_000)
    table = made(tmp_path, fill)["last_card"]
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, 8: 100 * MIB, "unexplained": -20 * MIB}
    assert table["rows"][-1]["kind"] == "unexplained" and [row["command"] for row in table["rows"] if row["kind"] == "process"] == [None]


def test_a_list_that_is_not_ours(tmp_path):
    """Pids of another namespace; and one that would have less than was recorded, so it cannot be this process."""
    def fill(trace):
        trace.card_use(440 * MIB, [(7, 340 * MIB, b""), (8, 100 * MIB, b"")], own=own)
    for own in (0xffffffff, 2):
        table = made(tmp_path, fill)["card"]
        assert not table["processes_known"]
        assert rows(table) == {"category": 40 * MIB, "context_and_processes": 400 * MIB, "unexplained": 0}

    def less(trace):
        trace.card_use(440 * MIB, [(8, 400 * MIB, b""), (7, 39 * MIB, b"")], own=1)
    assert not made(tmp_path, less)["card"]["processes_known"]


def test_hostile_records(tmp_path):
    def fill(trace):
        one = [(7, 340 * MIB, b"me")]
        trace.card_use(440 * MIB, one, count=1 << 31)
        trace.card_use(440 * MIB, one, count=2, text=b"")
        trace.card_use(440 * MIB, one, begin_ns=5000, end_ns=4000)
        trace.card_use(440 * MIB, one, device=77)
        trace.card_use(NOT_TOLD, one)
        trace.card_use(1 << 60, one, own=0)
        trace.card_use(440 * MIB, [(7, NOT_TOLD, b"me"), (0, NOT_TOLD, b"x" * 5000)], own=0, begin_ns=NOT_TOLD, end_ns=NOT_TOLD,
                       total=NOT_TOLD, reserved=NOT_TOLD, text=b"\x1b[31mred")
    device = made(tmp_path, fill)
    for table in (device["card"], device["last_card"]):
        rows(table)
        assert table["device_bytes"] == 440 * MIB and not table["processes_known"] and not table["told"]
    text = subprocess.check_output([ANALYZER, "report", tmp_path / "made.vrt"], text=True)
    assert "unexplained" in text and "\x1b" not in text
