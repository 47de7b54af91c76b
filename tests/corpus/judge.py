"""Runs programs of programs.md, and compares vramtrace's answers with what they recorded of themselves and what is expected there.

Categories (training/, inference/). A block is right if its category is one that the truth allows:

    truth        allowed
    parameter    parameter (by rules alone, buffer too: only an inspection separates them)
    buffer       buffer (by rules alone, parameter too)
    ""           activation or temporary; for blocks allocated before the first mark (constants, sums), buffer, input
                 and communication too; in a process killed in backward, gradient too: it could not put it into .grad
    any other    itself

`other`, what the program keeps for itself, is right too: for "" and checkpoint_copy, which its variables hold, for the state of a
script's own optimizer, and for inputs and caches of keys and values that outlive a step.

A name is right if the block's owner has it, one of those that the script knows for the block (without what wrappers put
before and between: _orig_mod, _fsdp_wrapped_module, module). For a block without a known name, any owner is right, and so
is the Python name that holds it, or the module whose cache of keys and values it is. Names are asked of what outlives a
step: the categories in NAMED.
"""
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import catalogue  # noqa: E402
import helpers  # noqa: E402


def run(folder, names, inspect=False, **settings):
    """{name: exit code} of these programs; FOLDER gets their traces and what they recorded (runner.py)."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [helpers.PYTHON, HERE / "runner.py", folder, *(["--inspect"] if inspect else []), *names]
    return json.loads(helpers.run(command, folder / "%p.vrt", timeout=1800, **settings).stdout.splitlines()[-1])


def truth_of(folder, name):
    failed = folder / f"{name}.failed"
    assert not failed.exists(), failed.read_text()
    return json.loads((folder / f"{name}.truth").read_text())


# ---- Categories ----

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
    def __init__(self, document):
        self.document = document
        self.marks = self.document["marks"]
        self.own_states = set(self.document["own_states"])
        self.category = {life[0]: life[4] for life in self.document["lives"]}
        self.names = {int(number): names for number, names in self.document["names"].items()}

    def alive_after(self, number):
        """Numbers of the blocks alive when that block has just been made."""
        position = self.document["lives"][number - 1][2]
        return {life[0] for life in self.document["lives"][:number] if life[3] is None or life[3] > position}

    def allows(self, number, reported, inspected):
        true = self.category[number]
        if reported == "other":
            return true in ("", "checkpoint_copy") or number in self.own_states or \
                true in ("input", "kv_cache") and self.outlives_a_step(number)
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

    def outlives_a_step(self, number):
        _, _, made, freed, _ = self.document["lives"][number - 1]
        return freed is None or len({mark["step"] for mark in self.marks if made < mark["position"] <= freed}) > 1

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


def judge(document, view_at, inspected=False, kind=Truth):
    """All moments of a run, and its truth of this KIND, of which DOCUMENT is what the program wrote. VIEW_AT gives the report's VIEW,
    with its blocks, at "mark:fwd#2" or "peak".

    Checks on the way that these are PyTorch's blocks and the driver's bytes."""
    truth = kind(document)
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


# ---- Leaks ----

HOST = "host pinned growth"


def answer_of(folder, name):
    return json.loads(helpers.vramtrace("leaks", "--json", folder / f"{name}.vrt").stdout)


def leaks_of(answer):
    return [leak for leak in answer["devices"][0]["leaks"] if leak["leak"]]


def judge_leak(name, truth, answer):
    """The errors of `leaks --json` as {what: text}; what: found, verdict, line, bytes."""
    program = catalogue.read()[name]
    if not answer["devices"][0]["leaks_judged"]:
        return {"found": "not judged"}
    verdicts = program.verdicts()
    leaks = leaks_of(answer)
    if not verdicts:
        growth = [leak["verdict"] for leak in answer["devices"][0]["leaks"] if not leak["leak"]]
        if leaks:
            return {"found": f"false alarm: {leaks[0]['verdict']}, {leaks[0]['bytes_per_step']} bytes per step"}
        expected = program.expected.get("growth")
        return {} if expected in (None, *growth) else {"verdict": f"growth: {growth}, expected {expected}"}
    if HOST not in verdicts:  # the program's counter sees the device alone
        leaks = [leak for leak in leaks if leak["verdict"] != HOST]
    if not leaks:
        return {"found": "not found"}
    wrong, leak, count = {}, leaks[0], program.expected.get("leaks", "1")
    if count not in ("any number", str(len(leaks))):
        wrong["found"] = f"{len(leaks)} leaks: {[(leak['verdict'], leak['bytes_per_step']) for leak in leaks]}"
    if leak["verdict"] not in verdicts:
        wrong["verdict"] = f"{leak['verdict']}, expected {verdicts[0]}"
    reported = sum(leak["bytes_per_step"] for leak in leaks)
    tolerance = max(0.05 if program.set else 0.01, float(program.expected.get("within", 0)))
    if abs(reported - truth["bytes_per_step"]) > tolerance * truth["bytes_per_step"]:
        wrong["bytes"] = f"{reported} bytes per step, expected {truth['bytes_per_step']}"
    shown = shown_lines(name, leak)
    if not set(shown) & set(truth["lines"]):
        wrong["line"] = f"lines {shown}, expected {truth['lines']}"
    return wrong


def shown_lines(name, leak):
    return [line["line"] for line in leak["lines"] if line["file"].endswith(f"/{name}.py")]


def judge_holder(name, answer):
    """{} or {"holder": what is wrong}."""
    program, leaks = catalogue.read()[name], leaks_of(answer)
    holder = leaks[0]["holder"] if leaks else None
    return {} if program.holder_is_right(holder) else {"holder": f"held by {holder}, expected {program.held_by or 'no holder'}"}


# ---- Out of memory ----

GPU_BYTES = 2 << 30  # of the simulated GPU


def run_oom(folder, names, remedies=(), **settings):
    """As run(), with what the programs of oom/ need; NAME-remedy are those of REMEDIES with their remedy."""
    names = [*names, *(f"{name}-remedy" for name in remedies if catalogue.read()[name].has_remedy)]
    folder.mkdir(parents=True, exist_ok=True)
    library, compiler = folder / "library.so", os.environ.get("CC", "cc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", str(library), str(HERE / "oom" / "library.c"), "-ldl"], check=True)
    return run(folder, names, OOM_LIBRARY=str(library), OOM_SHARED=str(folder / "card"),
               VRAMTRACE_STANDIN_MEMORY=str(GPU_BYTES), **settings)


def failures_in(folder, name):
    """What the program recorded of each failed request (oom_truth.py)."""
    return [json.loads(line) for line in (folder / f"{name}.log").read_text().splitlines() if line.startswith('{"asked"')]


def oom(trace):
    return json.loads(helpers.vramtrace("oom", "--json", trace).stdout)


def requests_in(shown):
    """Bytes of each failed request. PyTorch tells the size of the segment that it wanted."""
    return [each.get("tried_bytes", each["requested_bytes"]) for each in shown["out_of_memory"]]


def judge_oom(folder, name, codes):
    """The errors as text, "" = none; and the first cause, of a program in whose row a cause stands."""
    program, shown, wrong = catalogue.read()[name], oom(folder / f"{name}.vrt"), []
    if not shown["out_of_memory"] or not shown["last"]["causes"]:
        return "no cause reported", {"what": "–", "remedy": "–"}
    cause = shown["last"]["causes"][0]
    if requests_in(shown) != [each["asked"] for each in failures_in(folder, name)]:
        wrong.append("other requests than those that failed")
    if program.expected.get("cause") not in (None, cause["kind"]):
        wrong.append(f"cause {cause['kind']}, expected {program.expected['cause']}")
    line = cause.get("line") or {}
    place = f"{pathlib.Path(line.get('file', '')).name}:{line.get('line')}"
    for key, text in (("cause contains", f"{cause['kind']} {cause['what']} {cause.get('holder') or ''} {place}"),
                      ("remedy contains", cause["remedy"])):
        if key in program.expected and not any(word in text.lower() for word in program.words(key)):
            wrong.append(f"{key.split()[0]}: expected {program.words(key)}")
    if not cause["suffices"] or cause["bytes"] < shown["last"].get("missing_bytes", 0):
        wrong.append("what it frees is not enough")
    if codes[name] == 0 or codes.get(f"{name}-remedy"):
        wrong.append(f"exit codes {codes[name]}, and {codes.get(f'{name}-remedy')} with the remedy")
    return "; ".join(wrong), cause
