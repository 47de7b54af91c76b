"""The same training on the PyTorch versions that are here: the same categories for the same objects (versions.py compares all
versions, and the corpus). Others than the tests' own come from setup_new_torch or setup_torch_of of tests/setup.sh."""
import pathlib
import sys

import pytest

sys.path[:0] = map(str, (pathlib.Path(__file__).resolve().parent, pathlib.Path(__file__).resolve().parents[1]))
import helpers  # noqa: E402
import versions  # noqa: E402
from sharded import CACHE  # noqa: E402

pytestmark = pytest.mark.skipif(not helpers.RUN, reason="the ranks exchange messages through the stand-in's NCCL")
KIND, RANKS = "fsdp2", 2


def version_of(path):
    return path.parent.name.split("-")[2]


def others():
    """Interpreters, from the oldest PyTorch that has this kind to the newest."""
    found = [path for path in CACHE.glob("venv-torch-*/.done") if KIND in versions.kinds_of(version_of(path))]
    return [str(path.parent / "bin/python") for path in sorted(found, key=lambda path: tuple(map(int, version_of(path).split("."))))]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    own, answers = (helpers.PYTHON, dict(helpers.ENVIRONMENT)), {}
    try:
        for python in [helpers.PYTHON, *(others() if helpers.LONG else others()[-1:])]:
            folder = tmp_path_factory.mktemp("version")
            versions.use(python)
            versions.run_kinds(folder, True, [KIND], RANKS)
            answers[python] = versions.answers(folder)
    finally:
        helpers.PYTHON = own[0]
        helpers.ENVIRONMENT.clear()
        helpers.ENVIRONMENT.update(own[1])
    return answers


def test_right_on_each(found):
    for python, ranks in found.items():
        for rank, answer in ranks.items():
            assert answer.get("share", 0) >= versions.RIGHT, (python, rank, answer.get("failed"))
            assert answer["steps"][0] == answer["steps"][1], (python, rank)


def test_same_for_the_same_objects(found):
    if len(found) < 2:
        pytest.skip("only one PyTorch here")
    for rank in next(iter(found.values())):
        same = {python: ranks[rank]["objects"] for python, ranks in found.items()}
        assert versions.differences(same) == []
        for python in same:
            sizes = versions.compared(same, python)
            assert sizes[""] > 0.9 * sum(sizes.values()), sizes
