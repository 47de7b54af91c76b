"""What the report says that layers keep, against arithmetic over their shapes (theory.py)."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import theory  # noqa: E402

UNSPLIT = 1 << 20  # PyTorch leaves at most this much more in a block


def rows_of(view, *names):
    return [row for row in view["modules"] if row["name"] in names]


def check_blocks(blocks):
    """A block holds the requested bytes, rounded, and at most the remainder that PyTorch leaves unsplit."""
    for block in blocks:
        beyond = block["bytes"] - theory.rounded(block["requested"])
        assert 0 <= beyond <= (UNSPLIT if block["bytes"] > UNSPLIT else 0), block


@pytest.mark.parametrize("inspect", ["0", "1"])
@pytest.mark.parametrize("name", theory.NETWORKS)
def test_convolutional_networks_layer_by_layer(name, inspect, tmp_path):
    """Without inspections modules have the names of their classes, with them their own."""
    layers, blocks, view = theory.measure(name, tmp_path, VRAMTRACE_INSPECT=inspect)
    assert any(block["module"] == ("features.0" if inspect == "1" else "Sequential#1 > Conv2d#1") for block in blocks)
    check_blocks(blocks)
    assert len(layers) > 20
    for layer in layers:
        held = theory.of_module(blocks, layer["name"], layer["path"])
        assert sorted(block["requested"] for block in held) == sorted(size for _, size in layer["kept"]), layer
        rows = rows_of(view, layer["name"], layer["path"])
        shown = sum(row["categories"].get("activation", 0) for row in rows)
        beyond = sum(block["bytes"] - theory.rounded(block["requested"]) for block in held)
        assert shown == sum(theory.rounded(size) for _, size in layer["kept"]) + beyond, layer
        if layer["kept"]:
            assert [row["class"] for row in rows] == [layer["class"]]
    # nothing is kept that the arithmetic does not know
    assert sum(len(layer["kept"]) for layer in layers) == len(blocks)


def test_kinds_are_sums_of_their_layers(tmp_path):
    layers, blocks, view = theory.measure("alexnet", tmp_path)
    for kind in {layer["class"] for layer in layers}:
        mine = [layer for layer in layers if layer["class"] == kind and layer["kept"]]
        held = sum(theory.sums(theory.of_module(blocks, layer["name"], layer["path"]))[2] for layer in mine)
        row = next((row for row in view["kinds"] if row["name"] == kind), {"categories": {}})
        assert row["categories"].get("activation", 0) == held


def test_transformer_layer_against_the_textbook(tmp_path):
    """Attention 11·b·s·d + 5·b·h·s² and MLP 19·b·s·d bytes, as the textbook has them; beyond it PyTorch keeps only the
    LayerNorms' statistics: two numbers of 32 bit a token."""
    terms = theory.terms_of_transformer(**theory.TRANSFORMER)
    _, blocks, view = theory.measure("transformer", tmp_path)
    check_blocks(blocks)
    pairs, rest = theory.match_terms(terms, blocks)
    assert not rest
    measured = dict.fromkeys(theory.textbook_sums(**theory.TRANSFORMER), 0)
    beyond_textbook = 0
    for (part, what, _, number, textbook, bytes_each), held in pairs:
        assert [block["requested"] for block in held] == [bytes_each] * number, what
        measured[part] += sum(block["requested"] for block in held)
        beyond_textbook += number * (bytes_each - textbook)
    batch, length = theory.TRANSFORMER["batch"], theory.TRANSFORMER["length"]
    statistics = 2 * 2 * 4 * batch * length
    assert beyond_textbook == statistics
    textbook = theory.textbook_sums(**theory.TRANSFORMER)
    assert measured == dict(textbook, norm=textbook["norm"] + statistics)
    layer = [row for part in theory.PARTS for row in rows_of(
        view, f"layers.{theory.MEASURED_LAYER}{theory.PARTS[part][0]}", f"Layer#{theory.MEASURED_LAYER + 1}{theory.PARTS[part][1]}")]
    assert sum(row["categories"]["activation"] for row in layer) == sum(theory.sums(held)[2] for _, held in pairs)
