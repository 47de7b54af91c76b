#!/usr/bin/env python3
"""Compares each change of `dryrun --try` with the same edit made by hand, by PyTorch's counters. Prints a table; differences end it with 1.

    trials.py [CHANGES...]      default: all that programs/trials.py knows. Needs VRAMTRACE_BUILD and VRAMTRACE_PYTHON (tests/helpers.py)
"""
import json
import sys
import tempfile
from pathlib import Path

from dry import PROGRAMS, PYTHON, dry
from helpers import made_here

ALL = ("foreach=off", "fused=on", "checkpoint=blocks.*", "bf16", "need_weights=off", "inplace=on", "no_grad=evaluate", "zero_grad=early",
       "batch=8", "batch=/4", "offload=activations", "optimizer=sgd", "no_grad=evaluate,foreach=off",
       "no_grad=evaluate,checkpoint=blocks.*,bf16", "no_grad=evaluate,bf16,fused=on,zero_grad=early,batch=8")
TEXT = """Bytes that a change saves: as `dryrun --try` says it, and as PyTorch's counters say it of the program with the same edit by hand
(`tests/dryrun/programs/trials.py`). Some save nothing here, or cost: that is what a trial is for.
"""
BY_HAND = {"batch=/4": "batch=4"}


def by_hand(folder, changes):
    """[allocated, reserved] of the program with these edits."""
    words = [BY_HAND.get(word, word) for word in changes.split(",") if word]
    done = dry(folder, [PYTHON, PROGRAMS / "trials.py", *words], "--gpu", "l40s")
    assert done.status == 0, done.error
    return [int(number) for number in done.output.split()]


def compare(folder, wanted):
    """{changes: (saved by trial, saved by hand)}, each [allocated, reserved] in bytes."""
    told, options = Path(folder) / "told.json", [option for changes in wanted for option in ("--try", changes)]
    done = dry(folder, [PYTHON, PROGRAMS / "trials.py"], "--gpu", "l40s", "--json", told, *options, timeout=1200)
    assert done.status == 0, done.error
    trials = json.loads(told.read_text())["trials"]
    before, first, found = by_hand(folder, ""), trials[0], {}
    assert first["peak_used_bytes"] == before[0], "the peak in use is PyTorch's"
    for trial in trials[1:]:
        assert not trial["failed"] and "nothing to change" not in trial["note"], trial
        after = by_hand(folder, trial["changes"])
        found[trial["changes"]] = ([first[name] - trial[name] for name in ("peak_used_bytes", "needed_bytes")],
                                   [one - other for one, other in zip(before, after)])
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = compare(folder, sys.argv[1:] or ALL)
    print(made_here("Changes of a dry run, and the same edits by hand", "tests/dryrun/trials.py"))
    print(TEXT)
    print("| changes | allocated: less by trial | by hand | reserved: less by trial | by hand | |\n|---|--:|--:|--:|--:|---|")
    for changes, (trial, hand) in found.items():
        same = "equal" if trial == hand else "**not equal**"
        print(f"| `{changes}` | {trial[0]:,} | {hand[0]:,} | {trial[1]:,} | {hand[1]:,} | {same} |")
    return any(trial != hand for trial, hand in found.values())


if __name__ == "__main__":
    sys.exit(main())
