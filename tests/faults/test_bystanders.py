"""Programs that do not use CUDA do not notice the recorder: no file, no message, no thread."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, run  # noqa: E402

LOADER = """
import torch, os, sys, threading
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self): return 64
    def __getitem__(self, i):
        return torch.full((4,), i)
def main():
    model = torch.nn.Linear(4, 4).cuda()  # the parent traces; its workers must not
    total = 0
    for batch in DataLoader(Numbers(), batch_size=8, num_workers=2):
        total += int(batch.sum())
    assert total == 4 * sum(range(64)), total
main()
"""


@pytest.mark.parametrize("command", [
    ["bash", "-c", "true"],
    [sys.executable, "-c", "pass"],
    ["bash", "-c", f"{sys.executable} -c 'import subprocess; subprocess.run([\"true\"])' | cat"],
    ["ls", "/"],
])
def test_bystander(command, tmp_path):
    result = run(command, tmp_path / "x.%p.vrt")
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_bystander_threads(tmp_path):
    result = run([sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/task')))"], tmp_path / "x.%p.vrt")
    assert result.stdout.strip() == "1"


def test_data_loader_workers(tmp_path):
    result = run([PYTHON, "-c", LOADER], tmp_path / "x.%p.vrt")
    assert len(list(tmp_path.iterdir())) == 1, "only the parent, which uses CUDA, has a trace"
    assert result.stderr.count("vramtrace:") == 1, result.stderr


def test_quiet(tmp_path):
    result = run([PYTHON, "-c", "import torch; torch.zeros(8, device='cuda')"], tmp_path / "x.vrt",
                 VRAMTRACE_QUIET="1")
    assert "vramtrace" not in result.stderr
    assert (tmp_path / "x.vrt").exists()
