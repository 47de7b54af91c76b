"""The stand-in's NCCL: ranks exchange what is small, so that trainers with several ranks run as they do over the real one."""
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from helpers import ENVIRONMENT, PYTHON, RUN  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="the ranks share a stand-in device")


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages_travel(tmp_path, ranks):
    command = [*RUN, PYTHON, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", HERE / "nccl_script.py"]
    done = subprocess.run(command, env={**ENVIRONMENT, "VRAMTRACE_STANDIN_ROOMS": tmp_path}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert sorted(line for line in done.stdout.splitlines() if "right" in line) == [f"rank {rank} right" for rank in range(ranks)]
    assert not list(tmp_path.iterdir())
