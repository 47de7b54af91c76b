"""The script's own NVTX marks and ranges, as PyTorch makes them, under `vramtrace run`."""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PROGRAM, PYTHON, RUN, events, report  # noqa: E402

SCRIPT = """
import torch
kept = [torch.zeros(1024, device="cuda")]
torch.cuda.nvtx.mark("loaded")
with torch.cuda.nvtx.range("work"):
    kept.append(torch.zeros(4096, device="cuda"))
torch.cuda.nvtx.mark("worked")
print(torch.cuda.memory_allocated())
"""


def test_nvtx_marks(tmp_path):
    trace = tmp_path / "x.vrt"
    done = subprocess.run([*RUN, PROGRAM, "run", "-o", trace, "--quiet", "1", "--", PYTHON, "-c", SCRIPT], text=True,
                          capture_output=True, check=True)
    assert done.stderr == ""
    named = [(event["kind"], event.get("name", "")) for event in events(trace, stacks=False) if event["layer"] == "none"]
    assert named == [("mark", "loaded"), ("range_push", "work"), ("range_pop", ""), ("mark", "worked")]
    at = {name: report(trace, "--at", f"mark:{name}")["devices"][0]["at"]["block_bytes"] for name in ("loaded", "worked")}
    assert at == {"loaded": 4096, "worked": int(done.stdout)}
