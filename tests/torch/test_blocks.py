"""`report --by block`: every block alive at a mark against PyTorch's own list and its counter of allocations; and
`report --explain`: why they count as what they do."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import helpers  # noqa: E402

SCRIPT = """
import ctypes, json, sys
import torch
from torch import nn

api = ctypes.CDLL(None)
api.vramtrace_mark.argtypes = [ctypes.c_char_p]

def count():
    return torch.cuda.memory_stats()["allocation.all.allocated"]

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(300, 200), nn.ReLU(), nn.Linear(200, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
truth = {}
for step in range(3):
    data = torch.randn(64, 300, device="cuda")
    before = count()
    extra = torch.empty(1000 + step, device="cuda")
    model(data).sum().backward()
    optimizer.step()
    api.vramtrace_mark(f"step{step}".encode())
    truth[f"step{step}"] = {
        "extra": [extra.data_ptr(), before + 1],
        "blocks": sorted([block["address"], block["size"]] for segment in torch.cuda.memory_snapshot()
                         for block in segment["blocks"] if block["state"] == "active_allocated"),
        "count": count()}
    optimizer.zero_grad()
print(json.dumps(truth))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blocks")
    (folder / "train.py").write_text(SCRIPT)
    trace = folder / "blocks.vrt"
    result = helpers.run([helpers.PYTHON, folder / "train.py"], trace)
    return trace, json.loads(result.stdout.splitlines()[-1])


def view(trace, mark):
    return helpers.report(trace, "--by", "block", "--at", f"mark:{mark}")["devices"][0]["at"]


@pytest.mark.parametrize("mark", ["step0", "step1", "step2"])
def test_blocks_are_those_of_the_allocator(run, mark):
    trace, truth = run
    blocks = [block for block in view(trace, mark)["blocks"] if block["kind"] == "block"]
    assert sorted([block["address"], block["bytes"]] for block in blocks) == truth[mark]["blocks"]


@pytest.mark.parametrize("mark", ["step0", "step1", "step2"])
def test_numbers_are_those_of_the_allocators_counter(run, mark):
    trace, truth = run
    blocks = {block["address"]: block for block in view(trace, mark)["blocks"]}
    address, number = truth[mark]["extra"]
    assert blocks[address]["alloc_number"] == number
    numbers = [block["alloc_number"] for block in blocks.values() if block["kind"] == "block"]
    assert len(set(numbers)) == len(numbers) and max(numbers) <= truth[mark]["count"]


def test_blocks_sum_to_the_categories(run):
    trace, _ = run
    shown = view(trace, "step2")
    sums = dict.fromkeys(shown["categories"], 0)
    for block in shown["blocks"]:
        sums[block["category"]] += block["bytes"]
    del sums["cached"], sums["context"]
    assert sums == {name: shown["categories"][name] for name in sums}


def test_only_the_view_asked_for_lists_blocks(run):
    trace, _ = run
    device = helpers.report(trace, "--by", "block", "--top", "3")["devices"][0]
    assert len(device["peak"]["blocks"]) == 3 and "blocks" not in device["end"]
    assert "blocks" not in helpers.report(trace)["devices"][0]["peak"]


def explain(trace, what, *arguments):
    return helpers.report(trace, "--explain", what, "--at", "mark:step1", *arguments)["devices"][0]["explanation"]


def test_a_category_is_explained_by_the_rules_lines(run):
    trace, _ = run
    explanation = explain(trace, "gradient")
    blocks = [block for block in view(trace, "step1")["blocks"] if block["category"] == "gradient"]
    assert explanation["as"] == "category"
    assert explanation["blocks"] == len(blocks) == 4  # two layers' weight and bias
    assert explanation["bytes"] == sum(block["bytes"] for block in blocks)
    assert sum(reason["bytes"] for reason in explanation["reasons"]) == explanation["bytes"]
    table = (helpers.ROOT / "analyzer" / "attribute" / "rules.def").read_text().splitlines()
    for reason in explanation["reasons"]:
        if reason["how"] == "rule":
            rule = reason["rule"]
            lines = rule["text"].splitlines()
            assert rule["file"] == "rules.def" and table[rule["line"] - 1:][:len(lines)] == lines
            assert lines[0] == f"rule {rule['name']}" and lines[1].split()[0] == reason["category"]
        assert reason["stack"]


def test_a_line_and_a_rule_of_ones_own_are_explained(run, tmp_path):
    trace, truth = run
    rules = tmp_path / "my.rules"
    rules.write_text("# mine\n\nrule extra\n    communication weak   # not true\n    python *train.py:*\n    bytes < 5000\n"
                     "    op aten::empty*\n")
    line = next(i for i, text in enumerate(SCRIPT.splitlines(), 1) if text.strip().startswith("extra ="))
    explanation = explain(trace, f"train.py:{line}", "--rules", rules)
    assert (explanation["as"], explanation["blocks"]) == ("line", 1)
    (reason,) = explanation["reasons"]
    assert reason["bytes"] == 4096 and (reason["category"], reason["evidence"]) == ("communication", "weak")
    assert reason["rule"] == {"name": "extra", "file": str(rules), "line": 3, "text": rules.read_text()[8:].rstrip("\n")}
    text = helpers.vramtrace("report", "--explain", f"train.py:{line}", "--at", "mark:step1", "--rules", rules, trace).stdout
    assert "bytes < 5000" in text and "my.rules:3" in text


def test_what_is_not_there_is_said_to_be_none(run):
    trace, _ = run
    nothing = explain(trace, "no such thing")
    assert nothing["as"] is None and nothing["blocks"] == 0 and nothing["reasons"] == []
    assert explain(trace, "communication")["as"] == "category"
