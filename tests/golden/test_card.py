"""Every byte of a card in one row: the table of `report`, against the stand-in driver's books, to the byte."""
import json
import os
import subprocess
import time

import pytest

from card_process import MIB, PAUSE, finish, read, rows, start, told
from harness import ANALYZER, LIBRARIES, STANDIN, environment

def test_one_process(tmp_path):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", "sleep:0.5", "module", "module", f"limit:{20 << 20}", "host:5", "alloc:60", PAUSE,
                 f"truth:{books}", VRAMTRACE_STANDIN_RESERVED=str(500 * MIB)))
    books = json.loads(books.read_text())
    device = read(trace)
    for table in (device["gpu"], device["last_gpu"]):
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
    books, table = json.loads(books.read_text()), read(trace)["last_gpu"]
    found = rows(table)
    assert table["device_bytes"] == books["own"] and found["graph_memory"] == books["pool"] >= 24 * MIB
    assert found["category"] == 40 * MIB and found["unexplained"] == 0


def test_graphs_while_they_run_and_at_the_end(tmp_path):
    """`top` and the line at exit count what the device holds for graphs, as the driver's books do."""
    trace, books, go = tmp_path / "a.vrt", tmp_path / "books", tmp_path / "go"
    host = start(trace, "alloc:40", "graph:24", "graph:90", "sleep:0.3", f"truth:{books}", f"wait:{go}", stderr=subprocess.PIPE)
    while not books.exists():
        time.sleep(0.05)
    books = json.loads(books.read_text())
    sample = json.loads(subprocess.check_output([ANALYZER, "top", "--once", "--json", str(books["pid"])], text=True))
    go.touch()
    (use,) = sample["processes"][0]["devices"]
    assert use["driver_bytes"] == use["driver_peak_bytes"] == books["allocation"] + books["pool"] > 154 * MIB
    assert f"peak {(books['allocation'] + books['pool']) / MIB:.3g} MiB on GPU 0" in host.communicate(timeout=60)[1]


def test_streams(tmp_path):
    """An H100 takes 2 MiB for each of the first ones."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", *["stream"] * 5, "unstream", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_STREAM=str(2 * MIB)))
    books = json.loads(books.read_text())
    assert rows(read(trace)["last_gpu"]) == {"category": 40 * MIB, "streams": books["stream"], "context": 300 * MIB, "unexplained": 0}
    assert books["stream"] == 8 * MIB


def test_what_the_driver_holds_for_no_process(tmp_path):
    """An H100 has 9 MiB in use that NVML charges no process with: neither the context's nor unexplained."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", PAUSE, "module", "alloc:5", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_UNLISTED=str(9 * MIB)))
    books, device = json.loads(books.read_text()), read(trace)
    assert rows(device["last_gpu"]) == {"category": 45 * MIB, "modules": 3 * MIB, "context": books["context"],
                                         "unlisted": books["others"], "unexplained": 0}
    assert device["last_gpu"]["device_bytes"] == books["own"] + 9 * MIB and books["others"] == 9 * MIB
    assert device["last_gpu"]["own_unexplained_bytes"] == 0
    text = subprocess.check_output([ANALYZER, "report", "--full", trace], text=True)
    assert "of no process that NVML lists" in text


def test_a_part_of_a_card(tmp_path):
    """MIG: NVML knows it by a UUID of its own."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_NVML="mig"))
    table = read(trace)["last_gpu"]
    assert table["source"] == "nvml" and table["device_bytes"] == json.loads(books.read_text())["own"]
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, "unexplained": 0}


def test_a_card_by_another_number(tmp_path):
    """Device 0 of a process that may use the second card only: not the first one's bytes."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared", "VRAMTRACE_STANDIN_DEVICES": "2"}
    trace, books, other, end = (tmp_path / name for name in ("a.vrt", "books", "other", "end"))
    beside = start(None, "alloc:100", f"truth:{other}", f"wait:{end}", **shared)
    finish(start(trace, f"wait:{other}", "alloc:40", PAUSE, f"truth:{books}", f"ready:{end}", **shared, CUDA_VISIBLE_DEVICES="1"), beside)
    table = read(trace)["last_gpu"]
    assert table["device_bytes"] == json.loads(books.read_text())["own"] == 340 * MIB
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, "unexplained": 0}


def test_killed_before_nvml_told(tmp_path):
    """Then it is what the driver said."""
    trace = tmp_path / "a.vrt"
    start(trace, "alloc:40", "die").wait(60)
    table = read(trace)["gpu"]
    assert (table["source"], table["processes"], table["steady"]) == ("driver", "no_nvml", True)
    assert rows(table) == {"category": 40 * MIB, "context_and_processes": 300 * MIB, "unexplained": 0}


@pytest.mark.parametrize("nvml", ["1", "0"])
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("how", ["context", "elsewhere"])
def test_a_further_context(tmp_path, how, early, nvml):
    """Charged to who made it, with the code and limits that it has, and gone with it; whenever it was told first."""
    trace, books = tmp_path / "a.vrt", [tmp_path / "during", tmp_path / "after"]
    code = ["module", f"limit:{20 << 20}"] if how == "context" else []
    finish(start(trace, "alloc:40", "module", *([PAUSE] if early else []), how, *code, "alloc:8", PAUSE, f"truth:{books[0]}",
                 "destroy", "sleep:0.1", "alloc:2", PAUSE, f"truth:{books[1]}", VRAMTRACE_NVML=nvml))
    during, after = (json.loads(path.read_text()) for path in books)
    device = read(trace)
    base = "context" if nvml == "1" else "context_and_processes"
    (other,) = [row for row in device["gpu"]["rows"] if row["kind"] == "context" and row["name"]]
    assert other["bytes"] == during["context"] - 300 * MIB == 300 * MIB
    found = rows(device["gpu"])
    assert device["gpu"]["device_bytes"] == during["own"] and found["unexplained"] == 0
    assert found["context"] + found.get("context_and_processes", 0) == during["context"]
    assert (found["category"], found["modules"], found.get("settings", 0)) == (
        during["allocation"], during["module"], during["limit"])
    # what was made with the context is gone; what the primary one owns is not
    table = device["last_gpu"]
    assert table["device_bytes"] == after["own"] and rows(table) == {
        "category": after["allocation"], "modules": 3 * MIB, base: after["context"], "unexplained": 0}
    assert after["context"] == 300 * MIB and after["module"] == 3 * MIB and after["limit"] == 0


def test_a_primary_context_beside_another(tmp_path):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "release", "context", "alloc:8", "retain", PAUSE, f"truth:{books}"))
    books, table = json.loads(books.read_text()), read(trace)["last_gpu"]
    assert rows(table) == {"category": 8 * MIB, "context": books["context"], "unexplained": 0} and books["context"] == 600 * MIB
    assert [row["bytes"] for row in table["rows"] if row["kind"] == "context"] == [300 * MIB] * 2


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
    table = read(trace)["last_gpu"]
    assert [(row["kind"], row["name"], row["bytes"] // MIB) for row in table["rows"]] == [
        ("library", "NCCL", 18), ("library", "cuBLAS", 9), ("category", "unknown", 49), ("modules", "NCCL", 6),
        ("modules", "cuBLAS", 3), ("modules", "libmine.so", 3), ("context", None, 300), ("unexplained", None, 0)]
    assert sum(rows(table).values()) == books["own"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_arguments_of_another_users_process(tmp_path):
    """They may hold secrets: of its command only the program is recorded, and the user."""
    shared, trace, ready = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}, tmp_path / "a.vrt", tmp_path / "ready"
    for step, command in (("user:0", "alloc:160"), ("user:1234", "(user 1234)")):
        other = start(None, "alloc:160", f"ready:{ready}", step, "sleep:100", **shared)
        finish(start(trace, f"wait:{ready}", "alloc:30", PAUSE, **shared))
        other.kill()
        other.wait()
        ready.unlink()
        (found,) = [row["command"] for row in read(trace)["gpu"]["rows"] if row["kind"] == "process"]
        assert command in found and ("alloc" in found) == (step == "user:0")
        trace.unlink()


def test_two_traced_processes_and_one_that_is_not(tmp_path):
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    traces = [tmp_path / "a.vrt", tmp_path / "b.vrt"]
    books = [tmp_path / name for name in ("a", "b", "c", "b_before")]
    handle, turn = tmp_path / "handle", tmp_path / "turn"
    # each has its peak when the others stand still, and waits for a sample
    processes = [
        start(traces[0], "alloc:30", f"export:{handle}", "module", f"wait:{books[2]}", f"wait:{books[3]}", "alloc:10", PAUSE,
              f"ready:{turn}",
              f"wait:{books[1]}", f"truth:{books[0]}", **shared),
        start(traces[1], f"open:{handle}", "alloc:60", f"truth:{books[3]}", f"wait:{turn}", "alloc:20", PAUSE, f"truth:{books[1]}",
              f"wait:{books[0]}", **shared),
        start(None, f"wait:{handle}", "alloc:160", f"truth:{books[2]}", f"wait:{books[0]}", **shared)]
    finish(*processes)
    books = [json.loads(path.read_text()) for path in books]
    for mine, other, trace in ((books[0], books[3], traces[0]), (books[1], books[0], traces[1])):
        whole = books[2]["own"] + mine["own"] + other["own"]
        tables = read(trace)["gpu"], read(trace)["last_gpu"]
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


def test_a_job_beside_what_came_later(tmp_path):
    """A context without memory, of a process that uses another card, and a program without a trace: both came after all memory."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared", "VRAMTRACE_STANDIN_DEVICES": "2"}
    traces, begun = [tmp_path / "a.vrt", tmp_path / "b.vrt"], tmp_path / "begun"
    books = {name: tmp_path / name for name in ("a", "b", "c")}
    first = start(traces[0], "alloc:40", f"ready:{begun}", f"wait:{books['b']}", f"wait:{books['c']}", PAUSE,
                  f"truth:{books['a']}", **shared)
    while not begun.exists() and first.poll() is None:
        time.sleep(0.02)
    finish(first, start(traces[1], "device:1", "alloc:60", PAUSE, f"truth:{books['b']}", f"wait:{books['a']}", **shared),
           start(None, "alloc:160", f"truth:{books['c']}", f"wait:{books['a']}", **shared))
    books = {name: json.loads(path.read_text()) for name, path in books.items()}
    job = json.loads(subprocess.check_output([ANALYZER, "report", "--json", *traces]))
    assert [(card["number"], card["most_bytes"], card["context_bytes"]) for card in job["gpus"]] == [
        (0, books["a"]["own"] + books["a"]["others"], books["a"]["context"] + books["a"]["others"]),
        (1, books["b"]["own"], books["b"]["context"])]
    assert books["a"]["others"] == 300 * MIB + books["c"]["own"]


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
    table = read(trace)["last_gpu"]
    assert table["source"] == ("nvml" if without.get("VRAMTRACE_STANDIN_NVML") == "no-permission" else "driver")
    assert table["processes_known"] is False and table["device_bytes"] == books["own"] + books["others"]
    assert rows(table) == {"category": 90 * MIB, "context_and_processes": 3 * 300 * MIB + 10 * MIB, "unexplained": 20 * MIB}


def test_old_nvml(tmp_path):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_NVML="old"))
    table = read(trace)["last_gpu"]
    assert table["device_bytes"] == json.loads(books.read_text())["own"] == 340 * MIB
    assert rows(table) == {"category": 40 * MIB, "context": 300 * MIB, "unexplained": 0} and table["processes_known"]


def test_beside_a_host_that_uses_nvml(tmp_path):
    """It has its own library and descriptors, and sees none of ours."""
    trace = tmp_path / "a.vrt"
    (output,) = finish(start(trace, "alloc:40", "nvml:0.4", "alloc:3", "nvml:0.4", "alloc:3", "nvml:0.4"))
    assert "nvml copies True" in output
    table = read(trace)["last_gpu"]
    assert table["source"] == "nvml" and rows(table)["unexplained"] == 0


def test_text(tmp_path):
    trace = tmp_path / "a.vrt"
    finish(start(trace, "alloc:40", "module", PAUSE))
    text = subprocess.check_output([ANALYZER, "report", "--full", trace], text=True)
    table = text[text.index("Whole GPU"):]
    for line in ("unknown", "kernels and modules of ", "CUDA context", "unexplained", "in use"):
        assert line in table
    assert "40 MiB" in table and "343 MiB" in table and "300 MiB" in table


LEAVES_MAIN = r"""
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef int call();
static void say_goodbye(void) { puts("goodbye"); }
static void *work(void *unused)
{
    usleep(1000 * (useconds_t)atoi(getenv("BEGINS_MS"))); /* before main has ended, or after */
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *address;
    ((call *)dlsym(driver, "cuInit"))(0);
    ((call *)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((call *)dlsym(driver, "cuCtxSetCurrent"))(context);
    ((call *)dlsym(driver, "cuMemAlloc_v2"))(&address, (size_t)1 << 20);
    usleep(1000 * (useconds_t)atoi(getenv("WORKS_MS"))); /* NVML is asked meanwhile */
    puts("worked");
    return unused;
}
int main(void)
{
    pthread_t thread;
    atexit(say_goodbye);
    pthread_create(&thread, NULL, work, NULL);
    pthread_detach(thread);
    usleep(200000);
    pthread_exit(NULL);
}
"""


# Also while its answer waits to be taken, at some of these moments.
@pytest.mark.parametrize("begins_ms, works_ms, nvml", [(0, 600, ""), (400, 600, ""), (0, 600, "slow"), (400, 600, "slow"),
                                                       *((0, works_ms, "") for works_ms in range(200, 420, 20))])
def test_the_last_thread_is_not_main(tmp_path, begins_ms, works_ms, nvml):
    """The process ends, and where NVML is just asked not in the thread that asks: the host's handlers and what is left to write would have
    descriptors there that are not the host's."""
    (tmp_path / "leaves.c").write_text(LEAVES_MAIN)
    subprocess.run(["cc", "-O1", "-o", tmp_path / "leaves", tmp_path / "leaves.c", "-pthread", "-ldl"], check=True)
    for recorder in (None, LIBRARIES["trace"]):
        done = subprocess.run([tmp_path / "leaves"], text=True, capture_output=True, timeout=20, check=True, env=environment(
            recorder, VRAMTRACE_OUT=tmp_path / "a.vrt", VRAMTRACE_STANDIN_NVML=nvml, BEGINS_MS=begins_ms,
            WORKS_MS=works_ms))
        assert done.stdout == "worked\ngoodbye\n"
    info = json.loads(subprocess.check_output([ANALYZER, "info", "--json", tmp_path / "a.vrt"]))
    assert info["trace"]["state"] == "complete"


def of_device(trace, number, *options):
    report = json.loads(subprocess.check_output([ANALYZER, "report", "--json", *options, trace], text=True))
    return next(device for device in report["devices"] if device["index"] == number)


def test_after_all_contexts_have_ended(tmp_path):
    """NVML does not list the process any more: it has nothing there, and who has the rest is known as before."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    trace, early, books, other = (tmp_path / name for name in ("a.vrt", "early", "books", "other"))
    beside = start(None, "alloc:100", f"truth:{other}", f"ready:{early}", f"wait:{books}", **shared)
    finish(start(trace, f"wait:{early}", "alloc:40", "module", PAUSE, "release", PAUSE, f"truth:{books}", **shared), beside)
    books, other = json.loads(books.read_text()), json.loads(other.read_text())
    device = read(trace, "--at", "end")
    for table in (device["gpu"], device["last_gpu"]):
        assert table["processes"] == "told" and table["device_bytes"] == books["others"] == other["own"]
        assert rows(table) == {other["pid"]: other["own"], "unexplained": 0}
    found = rows(read(trace)["gpu"])
    assert found == {"category": 40 * MIB, "modules": 3 * MIB, "context": 300 * MIB, other["pid"]: other["own"], "unexplained": 0}


@pytest.mark.parametrize("nvml", ["1", "0"])
def test_before_the_device_was_used(tmp_path, nvml):
    """What is told later is of a context that was not there yet."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared", "VRAMTRACE_STANDIN_DEVICES": "2", "VRAMTRACE_NVML": nvml}
    trace, early, books, other = (tmp_path / name for name in ("a.vrt", "early", "books", "other"))
    beside = start(None, "device:1", "alloc:100", f"truth:{other}", f"ready:{early}", f"wait:{books}", **shared)
    finish(start(trace, f"wait:{early}", "alloc:40", "sleep:0.5", "device:1", "alloc:20", PAUSE, f"truth:{books}", **shared), beside)
    books, other = json.loads(books.read_text()), json.loads(other.read_text())
    then, later = (of_device(trace, 1, "--at", at).get("gpu") for at in ("event:2", "end"))
    assert later["device_bytes"] == books["own"] + other["own"]
    if nvml == "0":
        assert then is None  # nobody told it, and what others had is not told apart
        return
    assert then["device_bytes"] == other["own"] and rows(then) == {other["pid"]: other["own"], "unexplained": 0}
    assert rows(later) == {"category": 20 * MIB, "context": 300 * MIB, other["pid"]: other["own"], "unexplained": 0}


def test_memory_before_a_context(tmp_path):
    """Physical memory needs none; the context that comes later is told by what NVML says from then on."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:8", PAUSE, "release", "create:4", PAUSE, "context", "alloc:2", PAUSE, f"truth:{books}"))
    books, table = json.loads(books.read_text()), read(trace, "--at", "end")["gpu"]
    assert table["device_bytes"] == books["own"] == 306 * MIB
    assert rows(table) == {"category": books["allocation"] + books["physical"], "context": 300 * MIB, "unexplained": 0}


def test_what_a_pool_gave_back(tmp_path):
    """At a synchronization, which no event shows: NVML does. The moments before have it still."""
    trace, full, books = tmp_path / "a.vrt", tmp_path / "full", tmp_path / "books"
    finish(start(trace, "alloc:40", "pooled:800", PAUSE, f"truth:{full}", "unpool", "synchronize", PAUSE, f"truth:{books}"))
    full, books = json.loads(full.read_text()), json.loads(books.read_text())
    at_peak, after = read(trace)["gpu"], read(trace, "--at", "end")
    assert at_peak["device_bytes"] == full["own"] == 1140 * MIB
    assert rows(at_peak) == {"category": 840 * MIB, "context": 300 * MIB, "unexplained": 0}
    for table in (after["gpu"], after["last_gpu"]):
        found = rows(table)
        assert table["device_bytes"] == books["own"] == 340 * MIB and table["processes"] == "told"
        assert found.pop("cached", 0) == 0 and found == {"category": 40 * MIB, "context": 300 * MIB, "unexplained": 0}
        assert table["returned_bytes"] == full["own"] - books["own"]
    said = " ".join(subprocess.check_output([ANALYZER, "report", "--full", "--at", "end", trace], text=True).split())
    assert "GPU: 340 MiB of this process = 40 MiB allocations + 300 MiB CUDA context." in said


@pytest.mark.parametrize("step", ["alloc:500", "create:500"])
def test_what_a_pool_gave_back_is_not_beside_what_came_then(tmp_path, step):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", "pooled:800", "unpool", "synchronize", step, f"truth:{books}"))
    job = json.loads(subprocess.check_output([ANALYZER, "report", "--json", tmp_path]))
    (device,) = job["processes"][0]["devices"]
    assert device["driver_peak_bytes"] == 840 * MIB and job["gpus"][0]["most_bytes"] == 1140 * MIB
    assert device["end"]["driver_bytes"] == json.loads(books.read_text())["own"] - 300 * MIB == 540 * MIB


def test_code_before_the_first_memory(tmp_path):
    """NVML tells of the process long before it has memory of its own."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "module", "sleep:1.6", "alloc:40", PAUSE, f"truth:{books}"))
    table = read(trace)["gpu"]
    assert table["device_bytes"] == json.loads(books.read_text())["own"] == 343 * MIB
    assert rows(table) == {"category": 40 * MIB, "modules": 3 * MIB, "context": 300 * MIB, "unexplained": 0}
