"""What the processes of a job had of a card together, whenever their contexts, code and lives end: against the driver's books."""
import json
import resource
import struct
import subprocess

import pytest

from card_process import MIB, PAUSE, finish, start
from harness import ANALYZER
from trace_file import ALLOC, DRIVER, TraceFile

CONTEXT, UUID = 300 * MIB, 27


def merged(folder):
    return json.loads(subprocess.check_output([ANALYZER, "report", "--json", folder]))


def together(books):
    return books["own"] + books["others"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "job").mkdir()
    return tmp_path / "job"


def test_contexts_and_code_count_while_they_are_there(tmp_path, folder):
    """A further context at the most alone; modules and a reset only later."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    there, full, books = (tmp_path / name for name in ("there", "full", "books"))
    beside = start(folder / "b.vrt", "alloc:100", f"ready:{there}", f"wait:{full}", PAUSE, **shared)
    finish(start(folder / "a.vrt", f"wait:{there}", "alloc:400", "context", PAUSE, f"truth:{books}", "destroy", "free", PAUSE,
                 *["module"] * 9, PAUSE,
                 "release", PAUSE, f"ready:{full}", **shared), beside)
    books, (card,) = json.loads(books.read_text()), merged(folder)["gpus"]
    assert together(books) == (100 + 400) * MIB + 3 * CONTEXT
    assert (card["most_bytes"], card["context_bytes"]) == (together(books), 3 * CONTEXT)


def test_code_that_is_loaded_after_the_most(tmp_path, folder):
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    there, full, books = (tmp_path / name for name in ("there", "full", "books"))
    beside = start(folder / "b.vrt", "alloc:100", f"ready:{there}", f"wait:{full}", PAUSE, **shared)
    finish(start(folder / "a.vrt", f"wait:{there}", "alloc:400", PAUSE, f"truth:{books}", "free", PAUSE, *["module"] * 9, PAUSE,
                 f"ready:{full}",
                 **shared), beside)
    (card,) = merged(folder)["gpus"]
    assert card["most_bytes"] == together(json.loads(books.read_text())) == 500 * MIB + 2 * CONTEXT


def test_one_that_waits_and_is_killed(tmp_path, folder):
    """Its memory was there long after its last event, as NVML told others; what it exported is its own."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    handle, full, books = (tmp_path / name for name in ("handle", "full", "books"))
    killed = start(folder / "a.vrt", "alloc:400", f"export:{handle}", f"wait:{full}", "die", **shared)
    finish(start(folder / "b.vrt", f"wait:{handle}", "sleep:1.5", f"open:{handle}", "alloc:100", PAUSE, f"truth:{books}",
                 f"ready:{full}", PAUSE,
                 **shared))
    assert killed.wait(60) == -9
    job, books = merged(folder), json.loads(books.read_text())
    (card,), (owner,) = job["gpus"], [number for number, process in enumerate(job["processes"]) if process["pid"] == killed.pid]
    assert card["most_bytes"] == together(books) == 507 * MIB + 2 * CONTEXT
    assert [(row["owner"], row["bytes"]) for row in job["shared"]] == [(owner, 7 * MIB)]


def test_memory_whose_maker_has_no_trace(tmp_path, folder):
    handle, end = tmp_path / "handle", tmp_path / "end"
    maker = start(None, f"export:{handle}", f"wait:{end}")
    finish(start(folder / "a.vrt", f"open:{handle}", "alloc:4", f"ready:{end}"), maker, start(folder / "b.vrt", "alloc:2"))
    text = " ".join(subprocess.check_output([ANALYZER, "report", "--width", "150", folder], text=True).split())
    assert merged(folder)["shared"][0]["owner"] is None and "imported at " in text


def write_user(path, number, lists, started_ns=0):
    """A process whose number in NVML's lists (5000 and more) is not the one that it knows itself by. `lists`: each pid's MiB."""
    trace = TraceFile(started_ns=1_700_000_000_000_000_000 + started_ns)
    trace.process([b"python", b"train.py"], b"/work", b"/usr/bin/python")
    trace.device(0, 1 << 36, b"card")
    trace.record(UUID, struct.pack("<II16s", 0, 0, b"A" * 16))
    for step, listed in enumerate(lists):
        trace.event(ALLOC, DRIVER, address=(step + 1) << 32, size=MIB, after_ns=50_000_000)
        processes = [(pid, size * MIB, b"python") for pid, size in listed.items()]
        trace.card_use(sum(size for _, size, _ in processes), processes, own=list(listed).index(5000 + number), total=1 << 36)
    trace.write(path)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 56, number)
    path.write_bytes(data)


def test_numbers_of_another_namespace(folder):
    """In containers: each knows itself by a small number, NVML tells the host's."""
    for number in (7, 8):
        write_user(folder / f"{number}.vrt", number, [{5007: 301, 5008: 301, 6000: 50}, {5007: 302, 5008: 302, 6000: 50}])
    (card,) = merged(folder)["gpus"]
    assert (card["most_bytes"], card["context_bytes"]) == ((302 * 2 + 50) * MIB, 650 * MIB)


def seconds(folder, count):
    """CPU time for so many processes on one card, each of which is told of 60 others, again and again."""
    folder.mkdir()
    for number in range(count):
        near = [(number // 60 * 60 + k) % count for k in range(60)]
        write_user(folder / f"{number}.vrt", number,
                   [{5000 + other: 300 + step + 1 + (other * step) % 3 * (other != number) for other in near} for step in range(12)],
                   number * 1_000_000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert len(merged(folder)["processes"]) == count
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_many_processes_on_one_card(tmp_path):
    assert seconds(tmp_path / "many", 480) < 10 * seconds(tmp_path / "few", 120) + 0.2
