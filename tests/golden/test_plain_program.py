"""A program in C that no framework is in: nothing that only models or frameworks have is said of it."""
import json
import os
import subprocess
import sys
import pathlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, RUN, run, vramtrace  # noqa: E402

STANDIN = BUILD / "simulate"
pytestmark = pytest.mark.skipif(not RUN, reason="fills the card: only over the stand-in, whose size can be set")
PROGRAM = r"""
#include <stddef.h>
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *), cuMemAlloc_v2(unsigned long long *, size_t);
static int fill(size_t bytes)
{
    unsigned long long address;
    int count = 0;
    while (cuMemAlloc_v2(&address, bytes) == 0)
        count++;
    return count;
}
int main(void)
{
    void *context;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || fill(64 << 20) < 10;
}
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain")
    (folder / "fill.c").write_text(PROGRAM)
    subprocess.run(["cc", "-g", "-O0", "-o", folder / "fill", folder / "fill.c", f"-L{STANDIN}", "-l:libcuda.so.1"], check=True)
    run([folder / "fill"], folder / "run.vrt", VRAMTRACE_STANDIN_MEMORY="2GiB")
    return folder / "run.vrt"


def test_the_cause_is_said_to_be_unknown(trace):
    found = json.loads(vramtrace("oom", "--json", trace).stdout)["last"]
    (cause,) = found["causes"]
    assert cause["kind"] == "unknown_use" and cause["bytes"] == found["at"]["categories"]["unknown"]


def test_no_words_of_models(trace):
    text = "".join(vramtrace(command, trace).stdout for command in ("report", "oom", "leaks", "frag", "steps"))
    for word in ("activation", "checkpoint", "batch", "gradient", "torch", "this step"):
        assert word not in text, word
    assert "fill.c" in text and text.count("VRAMTRACE_STEP()") == 3


def test_source_of_a_relative_path(tmp_path):
    """The compiler ran in another folder than the program does, and was given a relative path: both views find the source."""
    import page_data
    (tmp_path / "build").mkdir()
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "fill.cpp"
    source.write_text(PROGRAM.replace("int cuInit", 'extern "C" int cuInit'))
    os.utime(source, (1_600_000_000, 1_600_000_000))
    subprocess.run(["g++", "-g", "-O0", "-o", "fill", "../src/fill.cpp", f"-L{STANDIN}", "-l:libcuda.so.1"],
                   cwd=tmp_path / "build", check=True)
    run([tmp_path / "build" / "fill"], tmp_path / "run.vrt", VRAMTRACE_STANDIN_MEMORY="2GiB")
    number = next(i for i, line in enumerate(source.read_text().splitlines(), 1) if "while (cuMemAlloc_v2" in line)
    (device,) = json.loads(vramtrace("annotate", "--json", tmp_path / "run.vrt", "src/fill.cpp").stdout)["devices"]
    (file,) = device["files"]
    assert (file["file"], file["source"]) == (str(source), "read")
    assert "cuMemAlloc_v2" in next(line["text"] for line in file["lines"] if line["line"] == number)
    vramtrace("html", "-o", tmp_path / "page.html", tmp_path / "run.vrt")
    _, (page,) = page_data.read(tmp_path / "page.html")
    assert "cuMemAlloc_v2" in page.document("sources")[str(source)][str(number)]
