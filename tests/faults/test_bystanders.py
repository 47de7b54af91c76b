"""Programs that do not use CUDA do not notice the shim: no file, no message, no thread."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, LIBRARY, PYTHON, ROOT, run  # noqa: E402

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


def test_exported_symbols():
    """What we put into the host's scope is preload/vramtrace.map, no more and no less."""
    import re
    listed = (ROOT / "preload" / "vramtrace.map").read_text()
    generated = BUILD / "preload" / "vramtrace.map"
    if generated.exists():
        listed = generated.read_text()
    names = set()
    for block in re.findall(r"global:(.*?)(?:local:|})", listed, re.S):
        block = re.sub(r"/\*.*?\*/", "", block, flags=re.S)
        names |= {name.strip() for name in block.split(";") if name.strip()}
    output = subprocess.check_output(["nm", "-D", "--defined-only", str(LIBRARY)], text=True)
    exported = {line.split()[-1].split("@")[0] for line in output.splitlines() if line.split()[1] != "A"}
    patterns = [re.compile(name.replace("*", ".*") + "$") for name in names]
    assert [name for name in sorted(exported) if not any(p.match(name) for p in patterns)] == []
    assert [name for name in sorted(names) if "*" not in name and name not in exported] == []


def test_dependencies():
    """libc alone: what the shim needs, the host gets too."""
    output = subprocess.check_output(["readelf", "-d", str(LIBRARY)], text=True)
    needed = {line.split("[")[1].rstrip("]") for line in output.splitlines() if "(NEEDED)" in line}
    assert needed <= {"libc.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}, needed
