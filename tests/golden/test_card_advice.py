"""Advice from a card's table: its numbers are those of the stand-in driver's books, to the byte."""
import json
import subprocess

import pytest

from card_process import MIB, PAUSE, finish, read, start
from harness import ANALYZER, STANDIN
from test_card import LIBRARY

GIB = 1 << 30


def advice_of(table):
    found = {advice["kind"]: advice for advice in table["advice"]}
    assert len(found) == len(table["advice"])
    for advice in table["advice"]:
        assert advice["bytes"] * 100 >= table["device_bytes"] and advice["share"] == pytest.approx(advice["bytes"] / table["device_bytes"])
        assert advice["what"] and advice["why"]
    assert [advice["bytes"] for advice in table["advice"]] == sorted((advice["bytes"] for advice in table["advice"]), reverse=True)
    return found


def alone(tmp_path, *steps, **settings):
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, *steps, PAUSE, f"truth:{books}", **settings))
    return advice_of(read(trace)["last_gpu"]), json.loads(books.read_text())


def test_nothing_to_say(tmp_path):
    """A context alone, and what the program asked for."""
    found, _ = alone(tmp_path, "alloc:400")
    assert found == {}


def test_other_processes(tmp_path):
    shared, end = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}, tmp_path / "end"
    names = ("a", "b", "c", "d")
    others = [start(None, f"alloc:{100 * (i + 1)}", f"truth:{tmp_path / name}", f"wait:{end}", **shared) for i, name in enumerate(names)]
    waits = [f"wait:{tmp_path / name}" for name in names]
    finish(start(tmp_path / "x.vrt", *waits, "alloc:40", PAUSE, f"ready:{end}", **shared), *others)
    books = [json.loads((tmp_path / name).read_text()) for name in names]
    found = advice_of(read(tmp_path / "x.vrt")["gpu"])
    assert list(found) == ["other_processes"]
    advice = found["other_processes"]
    assert advice["bytes"] == sum(book["own"] for book in books)
    assert advice["what"].startswith("the 4 other processes")
    for book, size in zip(books[1:], ("500", "600", "700")):
        assert f"process {book['pid']} (" in advice["why"] and f"{size} MiB" in advice["why"]
    assert advice["why"].endswith(", 1 more 400 MiB")
    text = " ".join(subprocess.check_output([ANALYZER, "report", "--full", tmp_path / "x.vrt"], text=True).split())
    assert "−2.15 GiB" in text and "the 4 other processes on other cards" in text


def test_one_other_process(tmp_path):
    shared, end, other = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}, tmp_path / "end", tmp_path / "other"
    beside = start(None, "alloc:100", f"truth:{other}", f"wait:{end}", **shared)
    finish(start(tmp_path / "x.vrt", f"wait:{other}", "alloc:40", PAUSE, f"ready:{end}", **shared), beside)
    book = json.loads(other.read_text())
    advice = advice_of(read(tmp_path / "x.vrt")["gpu"])["other_processes"]
    assert advice["bytes"] == book["own"] and advice["what"].startswith(f"process {book['pid']} (")


@pytest.mark.parametrize("loading, what, why", [(None, "CUDA_MODULE_LOADING=LAZY, at most", "whole module: "),
                                                ("EAGER", "CUDA_MODULE_LOADING=LAZY, at most", "(CUDA_MODULE_LOADING=EAGER): "),
                                                ("LAZY", "fewer modules", "with CUDA_MODULE_LOADING=LAZY too: ")])
def test_code(tmp_path, loading, what, why):
    """What is loaded with a module, by library; kernels of a first use are another matter."""
    source, library = tmp_path / "library.c", tmp_path / "libcublasLt.so.13"
    source.write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, f"-L{STANDIN}", "-l:libcuda.so.1"], check=True)
    found, books = alone(tmp_path, "alloc:40", f"library:{library}", f"library:{library}", "kernel", "kernel", "kernel",
                         VRAMTRACE_STANDIN_KERNEL="7MiB", **({"CUDA_MODULE_LOADING": loading} if loading else {}))
    assert set(found) == {"modules", "kernels"}
    assert books["module"] == (3 * 3 + 3 * 7) * MIB
    assert (found["modules"]["bytes"], found["kernels"]["bytes"]) == (9 * MIB, 21 * MIB)
    assert found["modules"]["what"].startswith(what) and why + "cuBLAS 6 MiB" in found["modules"]["why"]
    assert "first use" in found["kernels"]["why"]


def test_contexts_and_limits(tmp_path):
    found, books = alone(tmp_path, "alloc:400", "context", f"limit:{48 << 20}")
    assert set(found) == {"contexts", "settings"}
    assert found["contexts"]["bytes"] == books["context"] - 300 * MIB and found["settings"]["bytes"] == books["limit"] == 40 * MIB


def test_unexplained(tmp_path):
    """Without NVML: what another process takes after the first allocation."""
    shared = {"VRAMTRACE_STANDIN_SHARED": tmp_path / "shared"}
    there, late, end = tmp_path / "there", tmp_path / "late", tmp_path / "end"
    other = start(None, "alloc:1", f"ready:{there}", f"wait:{late}", "alloc:500", f"truth:{tmp_path / 'other'}", f"wait:{end}", **shared)
    finish(start(tmp_path / "x.vrt", f"wait:{there}", "alloc:40", f"ready:{late}", f"wait:{tmp_path / 'other'}", "sleep:0.1", "alloc:1",
                 f"ready:{end}",
                 VRAMTRACE_NVML="0", **shared), other)
    book = json.loads((tmp_path / "other").read_text())
    advice = advice_of(read(tmp_path / "x.vrt")["last_gpu"])["unexplained"]
    assert advice["bytes"] == book["allocation"] - 1 * MIB == 500 * MIB
    assert "without NVML" in advice["why"]
