"""The traces that the page is tried with: what real programs do, each recorded once in a test session."""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
sys.path[:0] = [str(TESTS), str(TESTS / "golden")]
import helpers  # noqa: E402

TORCH, CORPUS = TESTS / "torch", TESTS / "corpus"
CARD_BYTES = 2 << 30
# In one process that has imported PyTorch, each in a fork of it: name -> script and arguments
FORKED = {
    "transformer": (TORCH / "train_script.py", "transformer_amp", "--steps", "5"),
    "gan": (CORPUS / "runner.py", "--alone", "TRUTH", "gan"),
    "lora": (CORPUS / "runner.py", "--alone", "TRUTH", "lora"),
    "leak": (TESTS.parent / "examples" / "leak.py",),
    "out_of_memory": (CORPUS / "oom" / "batch.py",),
    "fragmentation": (CORPUS / "oom" / "fragmentation.py",),
    "expandable": (HERE / "programs" / "expandable.py",),
    "two_devices": (HERE / "programs" / "two_devices.py",),
    "killed": (HERE / "programs" / "killed.py",),
    "barely": (HERE / "programs" / "barely.py",),
    "served": (HERE / "programs" / "served.py",),
    "many_blocks": (HERE / "programs" / "many_blocks.py",),
}
APART = "cached", "context", "host_pinned"  # categories of what is not in use
FAILS = ("out_of_memory", "fragmentation", "killed")  # as they should
# Acceptance is for these; the others have a test of their own.
TEN = ("transformer", "gan", "lora", "leak", "out_of_memory", "fragmentation", "expandable", "two_devices", "killed", "program", "barely")


def record(folder):
    """{name: trace}"""
    folder = pathlib.Path(folder)
    jobs = [f"{name}=" + ",".join(str(folder / f"{name}.json") if part == "TRUTH" else str(part) for part in script)
            for name, script in FORKED.items()]
    ended = helpers.run([helpers.PYTHON, TORCH / "children.py", folder, *jobs], folder / "%p.vrt",
                        VRAMTRACE_STANDIN_MEMORY=str(CARD_BYTES), VRAMTRACE_STANDIN_DEVICES="2", VRAMTRACE_QUIET="1",
                        PYTHONPATH=str(CORPUS))
    for name, code in json.loads(ended.stdout.splitlines()[-1]).items():
        assert bool(code) == (name in FAILS), f"{name} ended with {code}:\n{(folder / f'{name}.log').read_text()}"
    helpers.run([helpers.BUILD / "tests" / "golden" / "driver_calls", "pools"], folder / "program.vrt")
    helpers.run([helpers.PYTHON, HERE / "programs" / "hostile.py"], folder / "hostile.vrt", PYTHONUTF8="1")
    return {name: folder / f"{name}.vrt" for name in (*FORKED, "program", "hostile")}


def at_event(trace, event):
    """What the terminal's program says of each device just after an event: {index: state}"""
    return {device["index"]: device["at"] for device in helpers.report(trace, "--at", f"event:{event}")["devices"]}
