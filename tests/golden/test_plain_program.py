"""A program in C that no framework is in: nothing that only models or frameworks have is said of it."""
import json
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
