"""Trainers that shard, on two ranks: what each trace says of shards, masters, states, gradients and buckets, against the trainer's
own objects at that moment (sharded.py, sharded/trainer.py).

`tests/setup.sh setup_sharded_trainers` brings DeepSpeed and Megatron; without it their trainers are skipped.
"""
import json
import pathlib
import sys

import pytest

sys.path[:0] = map(str, (pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[1]))
import sharded  # noqa: E402
from helpers import LONG, RUN, report, vramtrace  # noqa: E402

pytestmark = pytest.mark.skipif(not RUN, reason="the ranks exchange messages through the stand-in's NCCL")

IN_CI = ("zero3_skipping", "fully_sharded", "huggingface_zero3", "megatron_tensor")
WRONG_AT_MOST, STEPS = 0.005, 6  # of the allocated bytes; of each trainer


def layout_of(name):
    """The job's layout, and a part of what it rests on."""
    if name == "megatron_tensor":
        return "tensor_parallel", "are shards of distributed tensors"
    if name in ("replicas", "lightning_replicas", "zero1_offloaded", "zero2_offloaded"):  # nothing on the GPU is a part of something
        return "data_parallel", "equal shards"
    if name.startswith(("zero1", "zero2", "megatron")):
        return "data_parallel", "each has 1/2 of the optimizer's state"
    return "sharded_data_parallel", "are gathered while they are used"


@pytest.mark.parametrize("name", sharded.configurations())
def test_on_both_ranks(tmp_path, name):
    if not LONG and name not in IN_CI:
        pytest.skip("only in the long form: VRAMTRACE_LONG=1")
    if ("zero" in name or "megatron" in name) and not sharded.PACKAGES:
        pytest.skip("no DeepSpeed, no Megatron here")
    traces, words = sharded.train(tmp_path, name), {}
    assert sorted(traces) == list(range(sharded.RANKS))
    job, (layout, basis) = json.loads(vramtrace("report", "--json", tmp_path).stdout)["runs"][0], layout_of(name)
    assert job["layout"] == layout and basis in job["layout_basis"], job["layout_basis"]
    for rank, trace in traces.items():
        truth = json.loads((tmp_path / f"rank-{rank}.truth").read_text())
        assert [device["at"]["step"] for device in report(trace, "--at", "end")["devices"]] == [STEPS]
        judged = sharded.judge(trace, truth)
        for mark, found in judged.items():
            wrong = [each for each in found if each.category not in sharded.ALLOWED[each.role]]
            assert sharded.wrong_share(found, truth[mark]["allocated"]) <= WRONG_AT_MOST, (rank, mark, wrong)
            assert words.setdefault(mark, sharded.words_of(found)) == sharded.words_of(found), (rank, mark)
        unnamed = [each for each in judged["step"] if not each.named]
        assert sum(each.bytes for each in unnamed) <= 0.05 * sum(each.bytes for each in judged["step"]), unnamed
