"""Compares vramtrace's category of every block with what the script knew of it (truth.py).

A block is right if its category is one that the truth allows:

    truth        allowed
    parameter    parameter (by rules alone, buffer too: only an inspection separates them)
    buffer       buffer (by rules alone, parameter too)
    ""           activation or temporary; for blocks allocated before the first mark (constants, sums), buffer, input
                 and communication too; in a process killed in backward, gradient too: it could not put it into .grad
    any other    itself

A name is right if the block's owner has it, one of those that the script knows for the block (without what wrappers put
before and between: _orig_mod, _fsdp_wrapped_module, module). For a block without a known name, any owner is right, and so
is the Python name that holds it, or the module whose cache of keys and values it is. Names are asked of what outlives a
step: the categories in NAMED.
"""
import dataclasses
import json
import re

GROUPS = {
    "parameters and buffers": ("parameter", "buffer"),
    "gradients": ("gradient",),
    "optimizer state": ("optimizer_state",),
    "workspaces": ("workspace",),
    "activations": ("activation",),
    "inputs": ("input",),
    "temporaries": ("temporary",),
    "communication": ("communication",),
    "KV caches": ("kv_cache",),
    "checkpoint copies": ("checkpoint_copy",),
}
NAMED = ("parameter", "buffer", "gradient", "optimizer_state", "kv_cache", "checkpoint_copy")
EVIDENCES = ("exact", "strong", "weak")
WRAPPERS = re.compile(r"\b(_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|module)\.")


@dataclasses.dataclass
class Block:
    number: int
    bytes: int
    reported: str
    true: str
    right: bool
    evidence: str
    named: bool  # by one of its true names


@dataclasses.dataclass
class Moment:
    name: str  # "fwd#2", "peak"
    blocks: list

    def share(self, group=None):
        """Share of right bytes, of all that belong to this group or were put into it (None: of all). 1.0 if there are none."""
        wanted = GROUPS[group] if group else None
        weighed = [block for block in self.blocks
                   if wanted is None or block.true in wanted or (block.reported in wanted and not block.right)]
        all_bytes = sum(block.bytes for block in weighed)
        return sum(block.bytes for block in weighed if block.right) / all_bytes if all_bytes else 1.0

    def bytes(self, group):
        return sum(block.bytes for block in self.blocks if block.true in GROUPS[group])

    def unknown(self):
        """Share of bytes in the category unknown."""
        all_bytes = sum(block.bytes for block in self.blocks)
        return sum(block.bytes for block in self.blocks if block.reported == "unknown") / all_bytes if all_bytes else 0.0

    def wrong(self):
        return [block for block in self.blocks if not block.right]


def name_of(block):
    return block["owner"] or block["held_by"] or (block["module"] if block["category"] == "kv_cache" else None)


class Truth:
    def __init__(self, path):
        with open(path) as file:
            self.document = json.load(file)
        self.marks = self.document["marks"]
        self.category = {life[0]: life[4] for life in self.document["lives"]}
        self.names = {int(number): names for number, names in self.document["names"].items()}

    def alive_after(self, number):
        """Numbers of the blocks alive when that block has just been made."""
        position = self.document["lives"][number - 1][2]
        return {life[0] for life in self.document["lives"][:number] if life[3] is None or life[3] > position}

    def allows(self, number, reported, inspected):
        true = self.category[number]
        if true == "":
            allowed = {"activation", "temporary"}
            if self.document["lives"][number - 1][2] < self.marks[0]["position"]:
                allowed |= {"buffer", "input", "communication"}
            if self.document["killed"]:
                allowed.add("gradient")
            return reported in allowed
        if true in ("parameter", "buffer") and not inspected:
            return reported in ("parameter", "buffer")
        return reported == true

    def names_it(self, number, owner):
        if not owner:
            return False
        owner = WRAPPERS.sub("", owner)
        return number not in self.names or any(WRAPPERS.sub("", name) in owner for name in self.names[number])

    def moment(self, name, blocks, inspected):
        """BLOCKS: the report's blocks at that moment."""
        judged = []
        for block in blocks:
            number, reported = block["alloc_number"], block["category"]
            judged.append(Block(number, block["bytes"], reported, self.category[number],
                                self.allows(number, reported, inspected), block["evidence"],
                                self.names_it(number, name_of(block))))
        return Moment(name, judged)


def judge(truth_path, view_at, inspected=False):
    """All moments of a run, and its truth. VIEW_AT gives the report's VIEW, with its blocks, at "mark:fwd#2" or "peak".

    Checks on the way that these are PyTorch's blocks and the driver's bytes."""
    truth = Truth(truth_path)
    counts, moments = {}, []
    for mark in truth.marks:
        name = mark["name"]
        counts[name] = counts.get(name, 0) + 1
        label = f"{name}#{counts[name]}"
        view = view_at(f"mark:{label}")
        blocks = framework_blocks(view)
        reported = sorted((block["alloc_number"], block["address"], block["bytes"]) for block in blocks)
        assert reported == sorted(map(tuple, mark["blocks"])), f"{label}: not the blocks that PyTorch has"
        if mark["driver_bytes"] is not None and view["driver_bytes"] is not None:
            assert view["driver_bytes"] == mark["driver_bytes"], f"{label}: not the driver's bytes"
        moments.append(truth.moment(label, blocks, inspected))
    blocks = framework_blocks(view_at("peak"))
    assert sum(block["bytes"] for block in blocks) == truth.document["peak_bytes"], "not PyTorch's peak"
    numbers = {block["alloc_number"] for block in blocks}
    assert numbers == truth.alive_after(max(numbers)), "not the blocks that PyTorch had at that moment"
    moments.append(truth.moment("peak", blocks, inspected))
    return moments, truth


def framework_blocks(view):
    return [block for block in view["blocks"] if block["kind"] == "block"]
