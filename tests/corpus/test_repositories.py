"""The table of programs of public repositories, and what judges them, on a program that is made here."""
import json
import pathlib
import sys

sys.path[:0] = map(str, (pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[1]))
import repositories  # noqa: E402

PROGRAM = """
import sys

import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters())
for step in range(int(sys.argv[1])):
    inputs, targets = torch.randn(256, 512).cuda(), torch.zeros(256, dtype=torch.long).cuda()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
raise AssertionError("it is stopped before")
"""


def test_the_table():
    programs = repositories.read().values()
    assert sum(not program.skipped for program in programs) >= 20
    for program in programs:
        assert len(program.commit) == 40 and program.repository.count("/") == 1
        assert bool(program.stop) != bool(program.skipped), program.name
        for name in program.data.split():
            assert f"\ndef {name}(folder" in (repositories.HERE / "repository_data.py").read_text()


def test_a_program(tmp_path):
    checkout = tmp_path / "sources" / "nobody" / "nothing"
    checkout.mkdir(parents=True)
    (checkout / "train.py").write_text(PROGRAM)
    here = repositories.Program("nobody/nothing", "", "here", "train.py", "100", "4 steps")
    there = repositories.Program("nobody/else", "", "there", "train.py")
    assert repositories.why_not(there, tmp_path / "sources") == "nobody/else is not there"
    assert not repositories.why_not(here, tmp_path / "sources")
    found, failed = repositories.results([here], tmp_path / "sources", tmp_path, True, VRAMTRACE_INSPECT="1")
    assert not failed, failed
    result, = found
    assert result.share() == 1, list(repositories.wrong_blocks(found))
    assert result.true_steps == 4 and not result.leaks and len(result.moments) == 3 * 4 + 1
    assert {"parameter", "gradient", "optimizer_state", "activation"} <= {block.true for block in result.all_moments().blocks}
    assert ["input", "activation"] in json.loads((tmp_path / "here.truth").read_text())["may_be"].values()  # the batches
    named, asked = result.named()
    assert named == asked > 0
