"""What is said against a cache that grows: a setting or a call that the program's own framework has, and no other framework's."""
import json
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import page_data  # noqa: E402
from cached_program import EMPTY, FRAMEWORKS, MIB, NAMES, SEGMENT, write  # noqa: E402
from helpers import vramtrace  # noqa: E402


@pytest.fixture(scope="module", params=FRAMEWORKS)
def program(request, tmp_path_factory):
    library, counted, (setting, release) = FRAMEWORKS[request.param]
    return write(tmp_path_factory.mktemp("cached") / "run.vrt", library, counted, graph=True), setting, release


def words_in(text):
    return {name for name in NAMES if name in " ".join(text.split())}


def test_reserved_memory_that_grows(program):
    """`leaks` names the framework's setting, else what helps in any framework."""
    trace, setting, _ = program
    (device,) = json.loads(vramtrace("leaks", "--json", trace).stdout)["devices"]
    (growth,) = [leak for leak in device["leaks"] if leak["verdict"] == "fragmentation"]
    assert growth["bytes_per_step"] == SEGMENT - MIB and not growth["leak"]
    assert growth["remedy"] == (f"Set {setting}, or pad inputs to fewer distinct sizes." if setting else
                                "Pad inputs to fewer distinct sizes, or allocate long-lived tensors first.")
    assert words_in(vramtrace("leaks", trace).stdout) == ({setting} if setting else set())


def test_an_empty_segment(program):
    """frag, the report and the page name what returns it to the card, or say nothing of it."""
    trace, setting, release = program
    (device,) = json.loads(vramtrace("frag", "--json", "--at", "end", trace).stdout)["devices"]
    assert device["empty_bytes"] == EMPTY
    assert (device.get("release"), device["returnable_bytes"]) == ((release, EMPTY) if release else (None, 0))
    text = vramtrace("frag", "--at", "end", trace).stdout
    assert words_in(text) - {setting} == ({release} if release else set())
    assert (f"{release} would return it" in " ".join(text.split())) == bool(release)


def test_memory_of_a_graph_that_is_gone(program):
    text = " ".join(vramtrace("report", "--full", "--at", "end", program[0]).stdout.split())
    way = program[2] or "emptying the framework's cache"
    assert f"its graph no longer exists; {way} would return 32 MiB." in text


def test_the_page(program, tmp_path):
    """Its data has the call for each device, and no document in it has another framework's."""
    trace, setting, release = program
    vramtrace("html", "-o", tmp_path / "page.html", trace)
    _, (page,) = page_data.read(tmp_path / "page.html")
    assert [device.get("cache_release") for device in page.head["devices"]] == [release]
    for name in ("report", "leaks"):
        assert words_in(json.dumps(page.document(name))) <= {setting, release}, name
