"""The page's program as tsc and oxlint see it: unknown names, wrong arguments, wrong properties. Types are in JSDoc, where tsc
cannot see them by itself."""
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "analyzer/view/html/page/src"
OXLINT = pathlib.Path(sys.executable).with_name("oxlint")
# Text that is shown is searched for control characters; listeners may go while they are called; arrays are made by their length.
ALLOWED = ("no-control-regex", "unicorn/no-useless-spread", "unicorn/no-new-array")
LINES = 400

needs_tsc = pytest.mark.skipif(not shutil.which("tsc"), reason="tsc was not found")


def complaints_of_tsc(source, folder):
    config = json.loads((HERE / "tsconfig.json").read_text())
    config["include"] = [str(HERE / "types.d.ts"), f"{source}/**/*.js"]
    (folder / "tsconfig.json").write_text(json.dumps(config))
    return subprocess.run(["tsc", "-p", folder / "tsconfig.json"], capture_output=True, text=True, timeout=300, check=False).stdout


@needs_tsc
def test_types(tmp_path):
    assert complaints_of_tsc(SOURCE, tmp_path) == ""


# (file, what is right there, what is wrong, what tsc says of it)
MISTAKES = [
    ("model.js", "this.columns.bytes[allocation]", "this.colunms.bytes[allocation]", "Property 'colunms' does not exist"),
    ("names.js", "trace.blobs[name], strings)", "trace.blobs[name], strings, trace)", "Expected 0-3 arguments, but got 4"),
    ("walk.js", "names.indexOf(classes.category[k])", "nams.indexOf(classes.category[k])", "Cannot find name 'nams'"),
    ("timeline.js", "drawMarks(this, context)", "this.drawMarks(context)", "Property 'drawMarks' does not exist"),
    ("axis.js", 'from "./walk.js"', 'from "./wakl.js"', "Cannot find module './wakl.js'"),
]


@needs_tsc
def test_mistakes_are_found(tmp_path):
    copy = tmp_path / "src"
    shutil.copytree(SOURCE, copy)
    for file, right, wrong, _ in MISTAKES:
        text = (copy / file).read_text()
        assert text.count(right) == 1, file
        (copy / file).write_text(text.replace(right, wrong))
    said = complaints_of_tsc(copy, tmp_path)
    for file, _, _, complaint in MISTAKES:
        assert any(file in line and complaint in line for line in said.splitlines()), (complaint, said)


@pytest.mark.skipif(not OXLINT.exists(), reason="oxlint was not found")
def test_lint(tmp_path):
    command: list = [OXLINT, "--deny-warnings", *(f"--allow={rule}" for rule in ALLOWED)]
    checked = subprocess.run([*command, SOURCE], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
    (tmp_path / "wrong.js").write_text("const once = [1];\nif (once = [2])\n    debugger;\n")
    assert subprocess.run([*command, tmp_path], capture_output=True, check=False).returncode == 1


def test_no_file_is_too_long():
    assert {str(path.relative_to(SOURCE)): lines for path in SOURCE.rglob("*.js")
            if (lines := len(path.read_text().splitlines())) > LINES} == {}
