"""Leaks, and growth that is none: the programs of leaks/, against the truth that each records itself and what programs.md says."""
import pathlib
import re
import sys

import pytest

sys.path[:0] = map(str, (pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[1]))
import catalogue  # noqa: E402
import judge  # noqa: E402
from helpers import selected, short, vramtrace  # noqa: E402

NAMES = catalogue.names("leaks")


SHOWN = ("leak_small_view", "leak_model_copies", "leak_total_loss", "clean_plain", "leak_cycle_collected")  # whose text is compared


def answers_of(folder, names):
    """name -> (truth, answer of `leaks --json`)."""
    return {name: (judge.truth_of(folder, name), judge.answer_of(folder, name)) for name in names}


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaks")
    judge.run(folder, dict.fromkeys([*selected(request, "name"), *SHOWN]))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_program(folder, name):
    truth, answer = answers_of(folder, [name])[name]
    assert not {**judge.judge_leak(name, truth, answer), **judge.judge_holder(name, answer)}


def test_without_inspections(tmp_path):
    """Verdicts, bytes and lines are right without names, too."""
    names = short(NAMES)
    judge.run(tmp_path, names, VRAMTRACE_INSPECT="0")
    wrong = {name: found for name, answer in answers_of(tmp_path, names).items() if (found := judge.judge_leak(name, *answer))}
    known = [name for name in names if catalogue.read()[name].known_wrong.startswith("without inspections: not found")]
    assert all(wrong.pop(name, {"found": "not found"}) == {"found": "not found"} for name in known)
    assert not wrong


def test_view(folder):
    """A small view is reported as one, with the storage it keeps: a row of 256 of a batch of 512 rows."""
    for command in ("leaks", "report"):
        text = " ".join(vramtrace(command, folder / "leak_small_view.vrt").stdout.split())
        assert "; a view of 1 KiB keeps all 512 KiB of its storage: copy it" in text


def test_names_of_parameters(folder):
    """Copies of a model have names that modules give them; and their holder is reported, with the step in which it was seen."""
    answer = answers_of(folder, ["leak_model_copies"])["leak_model_copies"][1]
    leak = answer["devices"][0]["leaks"][0]
    assert leak["holder"].startswith("list 'averages' of main()") and leak["holder_step"] > leak["since_step"]
    for command in ("leaks", "report"):
        assert "list 'averages' of main()" in " ".join(vramtrace(command, folder / "leak_model_copies.vrt").stdout.split())


def test_report(folder):
    """The report has a sentence for a leak, and one for no leak."""
    leak, clean = (" ".join(vramtrace("report", folder / f"{name}.vrt").stdout.split()) for name in ("leak_total_loss", "clean_plain"))
    assert "since step 2 what retained graph, " in leak and "At this rate memory runs out at about step" in leak
    assert "✓ no leak in 18 steps" in clean
    page = " ".join(vramtrace("leaks", folder / "clean_plain.vrt").stdout.split())
    assert "✓ no leak in 18 steps: memory at the start of a step, later half against earlier: 0 B" in page


def test_a_bounded_leak(folder):
    truth, answer = answers_of(folder, ["leak_cycle_collected"])["leak_cycle_collected"]
    leak = answer["devices"][0]["leaks"][0]  # how many steps wait is the collector's choice
    text = " ".join(vramtrace("report", "--full", folder / "leak_cycle_collected.vrt").stdout.split())
    assert leak["bytes"] == leak["blocks"] * truth["bytes_per_step"] and leak["blocks"] > 1
    assert re.search(r", at most [\d.]+ [KM]iB until the collector ran", text)


def test_it_fits_the_first_screen(folder):
    for trace in sorted(folder.glob("*.vrt")):
        for command in ("report", "leaks"):
            shown = vramtrace(command, "--width", "80", trace.name, cwd=folder).stdout.splitlines()
            assert len(shown) <= 24 and max(map(len, shown)) <= 80, "\n".join([trace.name, *shown])
