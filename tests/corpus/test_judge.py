"""The judge is judged: on a real run with a label made wrong, it must say so."""
import functools
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import catalogue  # noqa: E402
import judge  # noqa: E402
import moved  # noqa: E402
import rules as uses_of_rules  # noqa: E402
import table  # noqa: E402
from helpers import BUILD, report  # noqa: E402

NAME = "accumulate"
WRONG_RULE = """
rule freed-is-input
    input strong
    kind block
    life freed
rule kept-is-input
    input strong
    kind block
    not life freed
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    table.train(folder, True, [NAME])
    return folder


@functools.lru_cache(maxsize=None)
def view_of(trace, moment, *options):
    return json.dumps(report(trace, *options, "--at", moment, "--by", "block")["devices"][0]["at"])


def judged(folder, change=lambda block: None, options=(), truth=None):
    """The moments, with CHANGE made to each block of the report."""
    def view_at(moment):
        view = json.loads(view_of(folder / f"{NAME}.vrt", moment, *options))
        for block in view["blocks"]:
            change(block)
        return view

    return table.Result(NAME, judge.judge(truth or judge.truth_of(folder, NAME), view_at, True)[0], 0, 0, 0)


def test_right_as_it_is(folder):
    result = judged(folder)
    asked, named = reversed(result.named())
    assert result.right() and asked and named == asked
    assert [result.told(word)[1] for word in judge.EVIDENCES] == [0, 0, 0]


@pytest.mark.parametrize("true", ["parameter", "gradient", "optimizer_state", "activation", "input", "workspace"])
def test_one_category_wrong(folder, true):
    """Whatever all blocks of one category are called instead, and told as exact: wrong, in its group and in the calibration."""
    group = next(name for name, members in judge.GROUPS.items() if true in members)
    for told in ("temporary", "kv_cache", "checkpoint_copy", "unknown"):
        def change(block):
            if block["category"] == true:
                block.update(category=told, evidence="exact")

        result = judged(folder, change)
        assert not result.right() and result.share(group) < 0.01, told  # buffers are in one group with parameters
        all_bytes, wrong = result.told("exact")
        assert 0 < wrong <= all_bytes


def test_a_rule_that_is_wrong(folder, tmp_path):
    """The analyzer itself made wrong: blocks that no inspection saw are inputs."""
    rules = tmp_path / "rules.def"
    rules.write_text(WRONG_RULE)
    result = judged(folder, options=("--rules", rules))
    assert result.share("activations") == 0 and not result.right()
    assert result.told("strong")[1] > 0


def test_what_moved(folder, tmp_path):
    """A build agrees with itself. One that calls all parameters gradients moves them, and they were right before."""
    program = uses_of_rules.read(folder, NAME, True)
    assert moved.differences(program, BUILD) == (NAME, [], False)
    other = tmp_path / "tests/torch/list_blocks"
    other.parent.mkdir(parents=True)
    other.write_text(f"""#!/bin/sh\n{BUILD}/tests/torch/list_blocks "$@" | sed 's/parameter/gradient/'\n""")
    other.chmod(0o755)
    name, found, moves = moved.differences(program, tmp_path)
    assert moves and {(was, now) for was, now, *_ in found} == {("gradient", "parameter")}
    assert all(right_now and not right_before for *_, right_before, right_now in found)


def test_what_needs_a_rule(folder, tmp_path):
    """The labels that rules.py judges are the report's; without a rule its blocks are called otherwise, and no others."""
    program = uses_of_rules.read(folder, NAME, True)
    uses_of_rules.without("activation", None, tmp_path)
    uses_of_rules.without("nccl", None, tmp_path)
    share, uses = uses_of_rules.examine(program, None, tmp_path, {"activation", "nccl"})
    assert share == 1 and uses["activation"].right and "nccl" not in uses
    told = {block.number: block.reported for moment in judged(folder).moments for block in moment.blocks}
    assert told == {number: program.labels()[number - 1][1] for number in told}
    before, after = program.labels(), program.labels(tmp_path / "activation.rules")
    changed = [(old, new) for old, new in zip(before, after) if old != new]
    assert changed and all(old[3] == "activation" and new[3] != "activation" for old, new in changed)
    assert program.labels(tmp_path / "nccl.rules") == before


def test_another_name(folder):
    def change(block):
        if block["owner"]:
            block["owner"] = block["owner"].replace("weight", "bias")

    result = judged(folder, change)
    named, asked = result.named()
    assert result.right() and named < asked / 10


def test_blocks_that_are_not_pytorchs(folder):
    def change(block):
        if block["kind"] == "block":
            block["bytes"] += 512

    with pytest.raises(AssertionError, match="not the blocks"):
        judged(folder, change)


def test_the_truth_made_wrong(folder):
    document = judge.truth_of(folder, NAME)
    for life in document["lives"]:
        if life[4] == "optimizer_state":
            life[4] = "checkpoint_copy"
    result = judged(folder, truth=document)
    assert not result.right() and result.share("checkpoint copies") == 0


def test_the_table_and_the_folders_agree():
    """Each program is there, and each file is in the table or holds no program."""
    programs = catalogue.read().values()
    assert not [program.name for program in programs if program.topic in catalogue.CATEGORIES and
                f"\ndef {program.name}(record" not in program.path.read_text()]
    listed, files = {program.path for program in programs}, set()
    for topic in {program.topic for program in programs}:
        files |= set((catalogue.HERE / topic).glob("*.py"))
    assert listed - files == set() and {path.stem for path in files - listed} == {"borrowed"}  # optimizers for others


def test_every_known_error_is_of_a_group():
    for program in catalogue.read().values():
        if program.topic in catalogue.CATEGORIES:
            assert {*program.known_shares("rules"), *program.known_shares("inspections")} <= {"all", *judge.GROUPS}
