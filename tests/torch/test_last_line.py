"""The last line of `vramtrace run` about the real PyTorch, against what PyTorch itself says."""
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import ENVIRONMENT, LIBRARY, PROGRAM, PYTHON, RUN, shown_bytes  # noqa: E402

TRAIN = """
import sys, torch
model = torch.nn.Linear(256, 256).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept, level = [], 0
def ask(step): return step != 4 or torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
for step in range(1, 31):
    loss = model(torch.randn(64, 256, device="cuda")).sum()
    %s
    loss.backward(), optimizer.step(), optimizer.zero_grad()
%s
"""


def run(inside, after, tmp_path):
    (tmp_path / "train.py").write_text(TRAIN % (inside, after))
    settings = {**ENVIRONMENT, "VRAMTRACE_LIBRARY": str(LIBRARY), "VRAMTRACE_LAST_LINE_MS": "60000", "LC_ALL": "C.UTF-8",
                "VRAMTRACE_INTERPRETER": PYTHON}
    done = subprocess.run([*RUN, PROGRAM, "run", "-o", "x.vrt", "train.py"], cwd=tmp_path, env=settings, capture_output=True, text=True)
    return done, done.stderr.splitlines()[-1]


def test_healthy(tmp_path):
    done, line = run("", "print(torch.cuda.max_memory_allocated())", tmp_path)
    assert done.returncode == 0
    assert line == f"vramtrace: peak {shown_bytes(int(done.stdout))} on GPU 0 · vramtrace report x.vrt"


def test_leak(tmp_path):
    done, line = run("", """
    kept.append(torch.empty(1 << 16, device="cuda"))
    grown, level = torch.cuda.memory_allocated() - level, torch.cuda.memory_allocated()
print(grown)""", tmp_path)
    assert line == f"vramtrace: leak: +{shown_bytes(int(done.stdout))} per step · vramtrace leaks x.vrt"


@pytest.mark.parametrize("caught", [False, True])
def test_out_of_memory(caught, tmp_path):
    done, line = run("""
    try: ask(step)
    except torch.OutOfMemoryError as error: print(error, file=sys.stderr)""" if caught else "ask(step)", "", tmp_path)
    needed, free = re.search(r"Tried to allocate (\S+) GiB.* of which (\S+ GiB) is free", done.stderr).groups()
    assert done.returncode == (0 if caught else 1) and float(needed) == 1024
    what = "out of memory at step 4 caught" if caught else "OUT OF MEMORY at step 4"
    said = re.fullmatch(rf"vramtrace: {what}: 1 TiB needed, (\S+) GiB free · vramtrace oom x.vrt", line.replace("(", "").replace(")", ""))
    assert abs(float(said[1]) - float(free.split()[0])) <= 0.05
