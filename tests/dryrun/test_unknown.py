"""What the answer says that its bytes do not include: only what the program used."""
import pytest

from dry import PROGRAMS, PYTHON, dry, python

SCRIPT = PROGRAMS / "unknown.py"
USED = {
    (): None,
    ("solver",): "cuSOLVER's work areas",
    ("sparse",): "cuSPARSE's work areas",
    ("convolution",): "workspaces of cuDNN's convolutions · workspaces of cuDNN's batch norms",
    ("attention",): "workspaces of cuDNN's attention",
    ("times",): "what is chosen by times of kernels (cudnn.benchmark, autotuning)",
    ("solver", "convolution", "solver"): "cuSOLVER's work areas · workspaces of cuDNN's convolutions · workspaces of cuDNN's batch norms",
}


def lacks(done):
    told = [line.removeprefix("  not included: ") for line in done.answer if line.startswith("  not included: ")]
    assert len(done.answer) <= 5 + len(told) and "vramtrace report" in done.answer[-1]
    return told


@pytest.mark.parametrize("used", USED, ids=" ".join)
def test_what_is_not_included(used, tmp_path):
    done = python(tmp_path, SCRIPT, *used)
    assert done.status == 0, done.error
    assert lacks(done) == ([USED[used]] if used else [])


def test_attention_of_another_library(tmp_path):
    """On an A100 PyTorch takes its own kernels."""
    assert lacks(python(tmp_path, SCRIPT, "attention", options=("--gpu", "a100-40gb"))) == []


def test_communicators_are_counted(tmp_path):
    launcher = [PYTHON, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    done = dry(tmp_path, [*launcher, SCRIPT, "groups"], "--gpu", "h100-80gb:4")
    assert done.status == 0, done.error
    assert lacks(done) == ["NCCL's buffers of a communicator × 2"]
