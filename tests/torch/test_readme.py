"""The README shows what its commands print: each line "    $ COMMAND" is run, and the indented lines below it are compared.
Times, process numbers and the step that an inspection happened to see may differ. As a program, writes what the commands print into the
README: test_readme.py > README.new

The README stays short, too: first contact is no manual.
"""
import os
import pathlib
import re
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import ENVIRONMENT, PROGRAM, PYTHON, ROOT, RUN  # noqa: E402

README = ROOT / "README.md"
MOST_LINES = 130
VARYING = [(r"\b\d+(\.\d+)? m?s\b", "TIME"), (r"\bpid \d+", "pid N"), (r"\bin step \d+ \(", "in step N (")]


def shown():
    """[(text before, command, lines that it printed)], in order, and the text after the last."""
    blocks, before, lines = [], [], README.read_text().split("\n")
    while lines:
        line = lines.pop(0)
        before.append(line)
        if line.startswith("    $ "):
            printed = []
            while lines and lines[0].startswith("    ") and not lines[0].startswith("    $ ") or \
                    len(lines) > 1 and not lines[0] and lines[1].startswith("    ") and not lines[1].startswith("    $ "):
                printed.append(lines.pop(0)[4:])
            blocks.append(("\n".join(before), line[6:], printed))
            before = []
    return blocks, "\n".join(before)


def print_of(command, folder):
    """What a user sees of COMMAND at the top of a checkout, by line."""
    environment = {**ENVIRONMENT, "PATH": f"{PROGRAM.parent}:{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}", "COLUMNS": "80"}
    done = subprocess.run([*RUN, "bash", "-c", command], cwd=folder, env=environment, text=True, timeout=300,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    return [line.rstrip() for line in done.stdout.rstrip("\n").split("\n")]


def without_what_varies(lines):
    text = "\n".join(lines)
    for pattern, replacement in VARYING:
        text = re.sub(pattern, replacement, text)
    return text.split("\n")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


@pytest.mark.skipif(not RUN, reason="the README shows the simulated GPU")
def test_readme_shows_what_the_commands_print(checkout):
    blocks, _ = shown()
    assert len(blocks) >= 4
    for _, command, printed in blocks:
        assert without_what_varies(print_of(command, checkout)) == without_what_varies(printed), command


def test_readme_is_short():
    assert len(README.read_text().splitlines()) <= MOST_LINES


def main():
    import tempfile
    blocks, after = shown()
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(ROOT / "examples", f"{folder}/examples")
        for before, command, _ in blocks:
            print(before)
            for line in print_of(command, folder):
                print(f"    {line}".rstrip())
    print(after, end="")


if __name__ == "__main__":
    main()
