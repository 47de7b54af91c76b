#!/usr/bin/env python3
"""What layers keep for backward: textbook arithmetic compared with a traced run.

    theory.py run NAME          runs one forward of NAME and prints, as JSON, what its layers should keep
    theory.py --markdown        docs/results/theory.md (runs everything under the recorder)

Expected bytes come from shapes alone (the arithmetic below). The requested size of each block comes from PyTorch's own list
of blocks: the allocator rounds it up to 512 B, and leaves up to 1 MiB more in a block that it does not split. That
remainder is a separate column, since no textbook knows it.
"""
import argparse
import json
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

NETWORKS = {"vgg16": 2, "alexnet": 16}  # images of 3 x 224 x 224 in a batch
TRANSFORMER = dict(batch=4, length=192, width=256, heads=8, layers=3)
MEASURED_LAYER = 1  # not the first, whose input comes from no layer, and not the last
FLOAT, INT64, MASK, HALF = 4, 8, 1, 2


def rounded(count):
    """COUNT bytes as PyTorch's allocator rounds them."""
    return (count + 511) // 512 * 512


# ---- Convolutional networks: by the shapes of their layers ----


def after_window(size, window, stride, padding):
    return (size + 2 * padding - window) // stride + 1


def expected_of_network(model, batch):
    """One dict per layer, in call order: names, class, what it should keep."""
    from torch import nn

    layers = []
    named = [("features", list(model.features.named_children())), ("", [("avgpool", model.avgpool)]),
             ("classifier", list(model.classifier.named_children()))]
    flat = [(f"{outer}.{name}" if outer else name, outer, layer) for outer, children in named for name, layer in children]
    channels, height, width, numbers = 3, 224, 224, {}
    for index, (name, outer, layer) in enumerate(flat):
        kind = type(layer).__name__
        following = flat[index + 1][2] if index + 1 < len(flat) else None
        kept = []
        if isinstance(layer, nn.Conv2d):
            channels = layer.out_channels
            height = after_window(height, layer.kernel_size[0], layer.stride[0], layer.padding[0])
            width = after_window(width, layer.kernel_size[1], layer.stride[1], layer.padding[1])
            kept = [("output", batch * channels * height * width * FLOAT)]
        elif isinstance(layer, nn.MaxPool2d):
            height = after_window(height, layer.kernel_size, layer.stride, layer.padding)
            width = after_window(width, layer.kernel_size, layer.stride, layer.padding)
            elements = batch * channels * height * width
            kept = [("output", elements * FLOAT), ("indices", elements * INT64)]
        elif isinstance(layer, nn.AdaptiveAvgPool2d):
            height, width = layer.output_size
            # a Dropout after it saves a mask, not its input
            kept = [("output", batch * channels * height * width * FLOAT)] if isinstance(following, nn.Linear) else []
            features = channels * height * width
        elif isinstance(layer, nn.Linear):
            features = layer.out_features
            kept = [("output", batch * features * FLOAT)]
        elif isinstance(layer, nn.Dropout):
            kept = [("output", batch * features * FLOAT), ("mask", batch * features * MASK)]
        else:
            assert isinstance(layer, nn.ReLU) and layer.inplace  # writes into its input's block
        siblings = sum(type(other).__name__ == kind and of == outer for _, of, other in flat)
        numbers[outer, kind] = numbers.get((outer, kind), 0) + 1
        place = {"features": "Sequential#1 > ", "classifier": "Sequential#2 > ", "": ""}[outer]
        layers.append({"name": name, "class": kind, "kept": kept,
                       "path": place + kind + (f"#{numbers[outer, kind]}" if siblings > 1 else "")})
    return layers


def run_network(name):
    import torch
    import torchvision

    torch.backends.cudnn.enabled = False  # its graphs need a real device; layers keep the same without it
    with torch.device("cuda"):
        model = getattr(torchvision.models, name)()
        images = torch.empty(NETWORKS[name], 3, 224, 224)
    return model, lambda: model(images), lambda: expected_of_network(model, NETWORKS[name])


# ---- A transformer layer with explicit attention ----


def make_transformer(batch, length, width, heads, layers):
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.attention_dropout, self.dropout = nn.Dropout(0.1), nn.Dropout(0.1)

        def split(self, hidden):
            return hidden.view(batch, length, heads, width // heads).transpose(1, 2)

        def forward(self, hidden):
            query, key, value = self.split(self.query(hidden)), self.split(self.key(hidden)), self.split(self.value(hidden))
            scores = torch.matmul(query, key.transpose(2, 3)) / (width // heads) ** 0.5
            shares = self.attention_dropout(torch.softmax(scores, dim=-1))
            mixed = torch.matmul(shares, value).transpose(1, 2).reshape(batch, length, width)
            return self.dropout(self.out(mixed))

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.gelu, self.dropout = nn.GELU(), nn.Dropout(0.1)

        def forward(self, hidden):
            return self.dropout(self.down(self.gelu(self.up(hidden))))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.mlp = Attention(), Mlp()

        def forward(self, hidden):
            hidden = hidden + self.attention(self.attention_norm(hidden))
            return hidden + self.mlp(self.mlp_norm(hidden))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, hidden):
            for layer in self.layers:
                hidden = layer(hidden)
            return hidden

    return Model()


# Parts of a layer: their names from inspections, and from stacks.
PARTS = {"layer": ("", ""), "attention_norm": (".attention_norm", " > LayerNorm#1"), "attention": (".attention", " > Attention"),
         "attention_dropout": (".attention.attention_dropout", " > Attention > Dropout#1"),
         "out_dropout": (".attention.dropout", " > Attention > Dropout#2"), "mlp_norm": (".mlp_norm", " > LayerNorm#2"),
         "up": (".mlp.up", " > Mlp > Linear#1"), "gelu": (".mlp.gelu", " > Mlp > GELU"),
         "mlp_dropout": (".mlp.dropout", " > Mlp > Dropout")}


def terms_of_transformer(batch, length, width, heads, layers):
    """Bytes that one layer keeps in 16 bit, term by term: (textbook's part, what, the part of the layer that allocates it,
    number, textbook's bytes of each, PyTorch's). The textbook is Korthikanti and others, "Reducing Activation
    Recomputation in Large Transformer Models", section 4.1."""
    hidden, scores = batch * length * width, batch * heads * length * length
    return [
        ("attention", "input of the query, key and value projections", "attention_norm", 1, HALF * hidden, HALF * hidden),
        ("attention", "queries and keys", "attention", 2, HALF * hidden, HALF * hidden),
        ("attention", "softmax output", "attention", 1, HALF * scores, HALF * scores),
        ("attention", "softmax dropout mask", "attention_dropout", 1, MASK * scores, MASK * scores),
        ("attention", "softmax dropout output", "attention_dropout", 1, HALF * scores, HALF * scores),
        ("attention", "values", "attention", 1, HALF * hidden, HALF * hidden),
        ("attention", "input of the output projection", "attention", 1, HALF * hidden, HALF * hidden),
        ("attention", "output dropout mask", "out_dropout", 1, MASK * hidden, MASK * hidden),
        ("mlp", "input of the first linear", "mlp_norm", 1, HALF * hidden, HALF * hidden),
        ("mlp", "GELU input", "up", 1, HALF * 4 * hidden, HALF * 4 * hidden),
        ("mlp", "GELU output, the second linear's input", "gelu", 1, HALF * 4 * hidden, HALF * 4 * hidden),
        ("mlp", "dropout mask", "mlp_dropout", 1, MASK * hidden, MASK * hidden),
        # one from this layer; its own input comes from the layer before, so its output, the next layer's input, replaces it
        ("norm", "inputs of two LayerNorms", "layer", 2, HALF * hidden, HALF * hidden),
        ("norm", "mean and reciprocal deviation in 32 bit, attention's LayerNorm", "attention_norm", 2, 0, FLOAT * batch * length),
        ("norm", "mean and reciprocal deviation in 32 bit, MLP's LayerNorm", "mlp_norm", 2, 0, FLOAT * batch * length),
    ]


def textbook_sums(batch, length, width, heads, layers):
    """The textbook's formulas for one layer, by its parts."""
    hidden, scores = batch * length * width, batch * heads * length * length
    return {"attention": 11 * hidden + 5 * scores, "mlp": 19 * hidden, "norm": 4 * hidden}


def run_transformer():
    import torch

    with torch.device("cuda"):
        model = make_transformer(**TRANSFORMER).half()
        hidden = torch.empty(TRANSFORMER["batch"], TRANSFORMER["length"], TRANSFORMER["width"], dtype=torch.half)
    return model, lambda: model(hidden), lambda: []


# ---- Inside the traced process ----


def run(name):
    import ctypes

    import torch

    model, forward, expected = run_transformer() if name == "transformer" else run_network(name)
    mark = ctypes.CDLL(None).vramtrace_mark
    for _ in range(2):
        output = forward()
        mark(b"forward")
        blocks = [[block["address"], block["requested_size"], block["size"]]
                  for segment in torch.cuda.memory_snapshot() for block in segment["blocks"]
                  if block["state"] == "active_allocated"]
        output.sum().backward()
        del output
        model.zero_grad()
    print(json.dumps({"layers": expected(), "blocks": blocks}))


# ---- Outside the traced process ----


def measure(name, folder, **settings):
    """Traces NAME, with SETTINGS in its environment. Returns (expected layers, activations after the last forward as blocks
    with their requested bytes, the report's view there)."""
    import helpers

    trace = pathlib.Path(folder) / f"{name}.vrt"
    truth = json.loads(helpers.run([helpers.PYTHON, __file__, "run", name], trace, **settings).stdout.splitlines()[-1])
    view = helpers.report(trace, "--by", "block", "--at", "mark:forward#2")["devices"][0]["at"]
    requested_bytes = {address: requested for address, requested, _ in truth["blocks"]}
    blocks = [dict(block, requested=requested_bytes[block["address"]]) for block in view["blocks"]
              if block["category"] == "activation"]
    return truth["layers"], blocks, view


def of_module(blocks, *names):
    """The blocks of a module with one of these names."""
    return [block for block in blocks if block["module"] in names]


def of_part(blocks, part):
    """The blocks that a part of the measured transformer layer allocated."""
    inspected, by_stack = PARTS[part]
    return of_module(blocks, f"layers.{MEASURED_LAYER}{inspected}", f"Layer#{MEASURED_LAYER + 1}{by_stack}")


def match_terms(terms, blocks):
    """Gives each term its number of blocks from its part, by requested bytes. Returns (term, blocks) pairs, and the blocks
    that no term took."""
    left = {part: of_part(blocks, part) for part in PARTS}
    taken = []
    for term in terms:
        *_, part, number, _, bytes_each = term
        mine = [block for block in left[part] if block["requested"] == bytes_each][:number]
        left[part] = [block for block in left[part] if block not in mine]
        taken.append((term, mine))
    return taken, [block for blocks_of_part in left.values() for block in blocks_of_part]


# ---- Tables ----


def sums(blocks):
    """Totals: (requested bytes, the same rounded to 512 B, bytes of the blocks)."""
    return (sum(block["requested"] for block in blocks), sum(rounded(block["requested"]) for block in blocks),
            sum(block["bytes"] for block in blocks))


def table(*rows):
    lines = ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|---" + "|--:" * (len(rows[0]) - 1) + "|", *lines[1:]])


def network_rows(name, folder):
    layers, blocks, _ = measure(name, folder)
    for kind in dict.fromkeys(layer["class"] for layer in layers):
        mine = [layer for layer in layers if layer["class"] == kind]
        held = [block for layer in mine for block in of_module(blocks, layer["name"], layer["path"])]
        _, requested, whole = sums(held)
        yield (f"{name}: {len(mine)} {kind}", f"{sum(rounded(size) for layer in mine for _, size in layer['kept']):,}",
               f"{requested:,}", f"{whole - requested:,}")


def transformer_rows(folder):
    _, blocks, _ = measure("transformer", folder)
    pairs, rest = match_terms(terms_of_transformer(**TRANSFORMER), blocks)
    assert not rest
    total = [0, 0, 0]
    for (part, what, _, number, textbook, _), held in pairs:
        _, requested, whole = sums(held)
        total = [total[0] + number * textbook, total[1] + requested, total[2] + whole - requested]
        yield f"{part}: {what}", f"{number * textbook:,}", f"{requested:,}", f"{whole - requested:,}"
    yield "**layer**", *(f"**{number:,}**" for number in total)


MARKDOWN = """Bytes are exact. *Theory* is arithmetic over shapes, each tensor rounded up to PyTorch's 512 B. *Measured* is what
`report --by module` shows as kept after forward, as requested from PyTorch. *Beyond* is what the blocks hold in addition: the
allocator leaves remainders of up to 1 MiB unsplit in blocks over 1 MiB; where depends on earlier frees.

## Convolutional networks, 32 bit, {batches}

A convolution keeps its output. The in-place ReLU writes into that output and keeps nothing more. Max pooling keeps its output
and an 8-byte index per element, dropout its output and a 1-byte mask per element, a linear layer its output. Pooling before a
dropout keeps nothing: the dropout saves only its mask.

{networks}

## A transformer layer, 16 bit, explicit attention

b = {batch}, s = {length}, d = {width}, h = {heads}: attention 11·b·s·d + 5·b·h·s² = {attention:,}, MLP 19·b·s·d = {mlp:,}, two
LayerNorms 4·b·s·d = {norm:,}. PyTorch keeps term by term what the textbook says, plus the statistics of the LayerNorms: two
32-bit numbers per token, which the textbook omits as small. Copies that `matmul` makes of its transposed inputs replace the
outputs of the projections; the scores before softmax are freed at once, and softmax keeps its output.

{transformer}
"""


def markdown():
    import helpers

    with tempfile.TemporaryDirectory() as folder:
        networks = [row for name in NETWORKS for row in network_rows(name, folder)]
        transformer = list(transformer_rows(folder))
        made = helpers.made_here("What layers keep for backward: theory and measurement",
                                 "tests/torch/theory.py --markdown > docs/results/theory.md",
                                 helpers.versions(pathlib.Path(folder) / "transformer.vrt"))
    title = "theory", "measured", "beyond"
    return made + "\n" + MARKDOWN.format(
        batches=" and ".join(f"{name} with {batch} images of 224 × 224" for name, batch in NETWORKS.items()),
        networks=table(("", *title), *networks), transformer=table(("", *title), *transformer), **TRANSFORMER,
        **textbook_sums(**TRANSFORMER))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", nargs="*", metavar="run NAME")
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    if arguments.markdown:
        print(markdown(), end="")
    elif len(arguments.command) == 2 and arguments.command[0] == "run":
        run(arguments.command[1])
    else:
        parser.error("nothing to do")
