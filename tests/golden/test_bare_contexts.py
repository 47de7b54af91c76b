"""Contexts on devices on which a process never has memory: told by its report, and users of the job's cards."""
import json
import subprocess

from card_process import MIB, PAUSE, finish, start
from harness import ANALYZER
from test_jobs import merged

CONTEXT = 300 * MIB  # of the stand-in


def report(trace):
    return json.loads(subprocess.check_output([ANALYZER, "report", "--json", trace], text=True))


def text_of(trace):
    """In one line: where it breaks depends on what NVML said in time."""
    return " ".join(subprocess.check_output([ANALYZER, "report", "--full", trace], text=True).split())


def test_it_is_told_with_its_bytes(tmp_path):
    """By NVML, as the driver's books of that device have it."""
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", "device:1", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_DEVICES="2"))
    books, told = json.loads(books.read_text()), report(trace)
    assert books["own"] == books["context"] == CONTEXT
    (context,) = told["contexts_without_memory"]
    assert context["device"] == 1 and context["bytes"] == CONTEXT and context["end_t_ns"] is None and context["t_ns"] > 0
    assert [device["index"] for device in told["devices"]] == [0]
    assert "GPU 1: a CUDA context, but no allocation. It takes 300 MiB there (NVML)" in text_of(trace)


def test_a_device_with_memory_later_is_none(tmp_path):
    trace = tmp_path / "a.vrt"
    finish(start(trace, "device:1", "device:0", "alloc:5", "device:1", "alloc:3", VRAMTRACE_STANDIN_DEVICES="2"))
    told = report(trace)
    assert told["contexts_without_memory"] == [] and len(told["devices"]) == 2


def test_without_nvml_its_bytes_are_not_known(tmp_path):
    trace = tmp_path / "a.vrt"
    finish(start(trace, "alloc:40", "device:1", "sleep:0.3", VRAMTRACE_STANDIN_DEVICES="2", VRAMTRACE_NVML="0"))
    (context,) = report(trace)["contexts_without_memory"]
    assert context["device"] == 1 and context["bytes"] is None
    assert "GPU 1: a CUDA context, but no allocation. It was made at " in text_of(trace)


def test_one_that_ended(tmp_path):
    """A context that was given back before the process ended: of a process without any memory."""
    trace = tmp_path / "a.vrt"
    finish(start(trace, "sleep:0.1", "release", "sleep:0.1"))
    told = report(trace)
    (context,) = told["contexts_without_memory"]
    assert context["device"] == 0 and context["end_t_ns"] - context["t_ns"] >= 10**8 and told["devices"] == []
    shown = text_of(trace)
    assert "No GPU memory was allocated" in shown and ", and ended at " in shown


def test_users_of_a_jobs_card(tmp_path):
    """One process holds memory on card 1, another has a context there alone, from before until after that memory was at its most."""
    folder, there, full, books = tmp_path / "job", tmp_path / "there", tmp_path / "full", tmp_path / "books"
    folder.mkdir()
    shared = {"VRAMTRACE_STANDIN_DEVICES": "2", "VRAMTRACE_STANDIN_SHARED": str(tmp_path / "shared")}
    stray = start(folder / "stray.vrt", "alloc:30", "device:1", PAUSE, f"ready:{there}", f"wait:{full}", PAUSE, **shared)
    holder = start(folder / "holder.vrt", f"wait:{there}", "device:1", "alloc:100", f"truth:{books}", PAUSE, f"ready:{full}", **shared)
    finish(stray, holder)
    books, told = json.loads(books.read_text()), merged(folder)
    assert books["own"] == 100 * MIB + CONTEXT and books["others"] == CONTEXT
    card = next(card for card in told["gpus"] if card["number"] == 1)
    by_file = {process["file"].rpartition("/")[2]: number for number, process in enumerate(told["processes"])}
    assert [(one["process"], one["bytes"]) for one in card["processes"]] == [(by_file["holder.vrt"], 100 * MIB)]
    (context,) = card["contexts_without_memory"]
    assert (context["process"], context["device"], context["bytes"]) == (by_file["stray.vrt"], 1, CONTEXT)
    assert card["context_bytes"] == 2 * CONTEXT and card["most_bytes"] == books["own"] + books["others"]
    shown = text_of(folder)
    assert "only a CUDA context" in shown
