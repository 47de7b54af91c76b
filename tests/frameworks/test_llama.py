"""llama.cpp: its buffers by what they are for, and the tensors in them by name, against what it says itself."""
import pytest

from support import Framework
from helpers import RUN, info, report, vramtrace

llama = Framework("venv-llama", "cyllama_cuda12.libs")
pytestmark = llama.needed
ON_HOST = "token_embd.weight"  # llama.cpp keeps these on the host
KEY_BYTES, LAYERS = 256 * 2, 2  # of one token: a key or a value of half precision


def run(folder, **options):
    return llama.run("llama_script.py", folder / "run.vrt", llama.packages / "cyllama_cuda12.libs", folder / "model.gguf", **options)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    return folder / "run.vrt", run(folder)


def at(trace, mark, *options):
    return report(trace, *options, "--at", f"mark:{mark}")["devices"][0]["at"]


def test_buffers_by_what_they_are_for(recorded):
    trace, truth = recorded
    assert len(truth) == 8
    for mark, told in truth.items():
        view = at(trace, mark)
        used = {name: size for name, size in view["categories"].items() if size and name != "context"}
        if told["in_use"] is not None:
            assert sum(used.values()) == view["driver_bytes"] - view["categories"]["context"] == told["in_use"], mark
        names = {"parameter": "model", "kv_cache": "KV", "activation": "compute"}
        assert {names[name]: f"{size / 2**20:.2f}" for name, size in used.items() if name in names} == told["sizes"], mark
        assert set(used) - set(names) == ({"workspace"} if mark.endswith("decoded") else set()), mark
    assert view["driver_bytes"] == view["categories"]["context"]
    vramtrace("info", "--verify", trace)
    assert info(trace)["trace"]["dropped"] == 0


def test_tensors_by_name(recorded):
    trace, truth = recorded
    for mark, told in truth.items():
        owners = {row["name"]: row["tensor_bytes"] for row in at(trace, mark, "--by", "owner")["owners"] if row["role"] == "tensor"}
        weights = {name: size for name, (_, size) in told["weights"].items() if name != ON_HOST}
        caches = {f"cache_{which}_l{layer}": KEY_BYTES * told["cells"] for which in "kv" for layer in range(LAYERS) if told["cells"]}
        assert owners == weights | caches, mark
        blocks = at(trace, mark, "--by", "block")["blocks"]
        for address, size in (told["weights"][name] for name in weights):
            assert any(block["category"] == "parameter" and block["address"] <= address <= block["address"] + block["bytes"] - size
                       for block in blocks), mark


def test_graphs_are_no_requests(recorded):
    """What ggml launches as a graph is a part of some of the program's calls: they do not count them."""
    assert info(recorded[0])["counts"]["kinds"].get("graph_launch") and report(recorded[0])["steps"] == 0


def test_modules(recorded):
    modules = {row["name"]: row["bytes"] for row in at(recorded[0], "second decoded", "--by", "module")["modules"]}
    assert modules["blk.1.ffn_down"] == 4 * 256 * 512


def test_no_names_where_nobody_wants_them(tmp_path):
    run(tmp_path, VRAMTRACE_INSPECT="0")
    view = at(tmp_path / "run.vrt", "first decoded", "--by", "owner")
    assert not any(row["role"] for row in view["owners"]) and view["categories"]["kv_cache"] == 4 * KEY_BYTES * 512


@pytest.mark.skipif(not RUN, reason="over the stand-in each run has the same sizes")
def test_results_are_the_same_without_us(recorded, tmp_path):
    def without_addresses(truth):
        return {mark: {**told, "weights": {name: size for name, (_, size) in told["weights"].items()}} for mark, told in truth.items()}

    assert without_addresses(run(tmp_path, preload=False)) == without_addresses(recorded[1])
