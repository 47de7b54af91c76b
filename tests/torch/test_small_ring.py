"""What an inspection found goes through the smallest buffer too."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, info, run  # noqa: E402

PROGRAM = """
import ctypes, time, torch
layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3000)).cuda()
torch.ones(1, device="cuda")
library = ctypes.CDLL(None)
library.vramtrace_inspect(b"all")
for _ in range(300):
    time.sleep(0.01)
"""


def test_all_parts_of_a_large_inspection_arrive(tmp_path):
    run([PYTHON, "-c", PROGRAM], tmp_path / "x.vrt", VRAMTRACE_RING="256KiB")
    seen = info(tmp_path / "x.vrt")
    assert seen["trace"]["dropped_definitions"] == 0
    assert seen["inspections"]["lost"] == 0
    assert seen["inspections"]["tensors"] >= 6000
