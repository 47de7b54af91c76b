"""A training recorded in flight mode: what PyTorch counts, and what the whole trace says."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import PYTHON, info, report, run, vramtrace  # noqa: E402

STEPS, LEAK_EVERY = 6000, 50
SCRIPT = """
import random, sys, torch
steps, leak_every = int(sys.argv[1]), int(sys.argv[2])
random.seed(5)
net = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)]).cuda()
optimizer = torch.optim.Adam(net.parameters())
leak, peak_step = [], 0
for step in range(steps):
    rows = 4000 if step == steps // 3 else random.randrange(16, 64)
    batch = torch.randn(rows, 64, device="cuda")
    net(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % leak_every == 0:
        leak.append(torch.empty(1000 + step, device="cuda"))
    if step == steps // 2:
        try:
            torch.empty(1 << 50, device="cuda", dtype=torch.uint8)
        except torch.OutOfMemoryError:
            refused = torch.cuda.memory_allocated()
import json
print(json.dumps([torch.cuda.max_memory_allocated(), refused, sum(512 * -(-one.nbytes // 512) for one in leak)]))
"""


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flight")
    (folder / "train.py").write_text(SCRIPT)
    done = run([PYTHON, folder / "train.py", STEPS, LEAK_EVERY], folder / "x.vrt", VRAMTRACE_MODE="flight", VRAMTRACE_LIMIT="1MiB",
               VRAMTRACE_NATIVE_STACKS="0")
    return folder / "x.vrt", json.loads(done.stdout)


def test_little_of_it_is_there(flight):
    trace, _ = flight
    assert trace.stat().st_size <= 1 << 20
    seen = info(trace)
    assert seen["trace"]["unkept"] > seen["trace"]["events"] / 2
    assert seen["disagreements"]["total_mismatches"] == seen["disagreements"]["unknown_frees"] == 0
    vramtrace("info", "--verify", trace)


def test_the_peak(flight):
    trace, (peak, _, _) = flight
    assert report(trace)["devices"][0]["peak"]["block_bytes"] == peak


def test_out_of_memory(flight):
    trace, (_, refused, _) = flight
    oom = json.loads(vramtrace("oom", "--json", trace).stdout)
    assert oom["last"]["at"]["block_bytes"] == refused
    assert oom["out_of_memory"][0]["step"] == STEPS // 2 + 1


def test_steps(flight):
    assert info(flight[0])["steps"] == STEPS


def test_the_leak(flight):
    trace, (_, _, leaked) = flight
    leaks = json.loads(vramtrace("leaks", "--json", trace).stdout)["devices"][0]["leaks"]
    assert [(leak["bytes"], leak["blocks"]) for leak in leaks] == [(leaked, STEPS // LEAK_EVERY)], leaks
