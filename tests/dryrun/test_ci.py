"""examples/ci/compare_memory.py, of a commit and a change: it fails if the change needs more, and writes its table for the summary."""
import os
import subprocess
import sys

import pytest

from dry import PROGRAM, PYTHON
from helpers import ENVIRONMENT, ROOT

TRAIN = """import torch
data = torch.utils.data.TensorDataset(torch.ones(64, 1024))
net = torch.nn.Linear(1024, {width}).cuda()
for (x,) in torch.utils.data.DataLoader(data, batch_size=16):
    net(x.cuda()).sum().backward()
"""


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("width, status", [(4096, 0), (5120, 1)])
def test_a_change_that_needs_more_fails(tmp_path, width, status):
    git(tmp_path, "init", "-q")
    (tmp_path / "train.py").write_text(TRAIN.format(width=4096))
    git(tmp_path, "add", "train.py")
    git(tmp_path, "commit", "-qm", "one")
    (tmp_path / "train.py").write_text(TRAIN.format(width=width))
    summary = tmp_path / "summary"
    environment = {**ENVIRONMENT, "PATH": f"{os.path.dirname(PROGRAM)}:{os.environ['PATH']}", "GITHUB_ACTIONS": "true",
                   "GITHUB_STEP_SUMMARY": str(summary), "LANG": "C.UTF-8"}
    done = subprocess.run([sys.executable, ROOT / "examples/ci/compare_memory.py", "--base", "HEAD", "--", PYTHON, "train.py"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert ("::error" in done.stdout) == bool(status)
    told = summary.read_text()
    assert told == (tmp_path / "memory" / "summary.md").read_text()
    assert told.startswith("### ❌" if status else "### ✅")
    weights = [line.split("|")[3:6] for line in told.splitlines() if "| parameter |" in line][0]
    after, more = width * 1025 * 4 / (1 << 20), (width / 4096 - 1) * 100
    assert [cell.strip() for cell in weights] == ["16 MiB", f"{after:,.0f} MiB", f"{more:+.1f} %"]
