"""An out of memory as PyTorch tells it: what was asked, by which line, and what was held then."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, RUN, events, report, run, vramtrace  # noqa: E402

SCRIPT = """
import json, torch
from torch import nn
torch.cuda.set_per_process_memory_fraction(1.0)
model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).cuda()
kept = []
batch = torch.randn(4096, 2048, device="cuda")
try:
    while True:
        kept.append(model(batch))  # the line that asks
except torch.OutOfMemoryError as error:
    print(json.dumps([torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), str(error).split(". ")[1]]))
"""


@pytest.mark.skipif(not RUN, reason="fills the card: only over the stand-in, whose size can be set")
def test_oom(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    result = run([PYTHON, script], tmp_path / "x.vrt", VRAMTRACE_STANDIN_MEMORY="3GiB")
    allocated, reserved, told = json.loads(result.stdout)
    assert told == "Tried to allocate 32.00 MiB"
    oom = [event for event in events(tmp_path / "x.vrt") if event["kind"] == "oom"]
    assert [(event["bytes"], event["total_bytes"], event["detail"]) for event in oom] == [(32 << 20, allocated, reserved)]
    line = 1 + SCRIPT.splitlines().index("        kept.append(model(batch))  # the line that asks")
    assert (str(script), line) in {(frame["file"], frame["line"]) for frame in oom[0]["stack"]}
    view = report(tmp_path / "x.vrt", "--at", "oom")["devices"][0]["at"]
    assert view["block_bytes"] == allocated
    assert view["segment_bytes"] == reserved
    first = vramtrace("report", "--full", tmp_path / "x.vrt").stdout
    assert "OUT OF MEMORY" in first and f"script.py:{line}" in first.replace("\n", " ")
