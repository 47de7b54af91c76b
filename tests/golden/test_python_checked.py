"""All Python as ruff and mypy see it: unknown names, what is not used, wrong arguments. ruff reads every file, by the rules of
pyproject.toml; mypy is strict with what ships, and reads the modules that other Python needs without annotations."""
import ast
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
READERS = os.environ.get("VRAMTRACE_READERS", sys.executable)  # has what python/vramtrace imports, so mypy knows its types
RUFF, MYPY = (pathlib.Path(READERS).with_name(name) for name in ("ruff", "mypy"))
# What ships or builds, and what tests import; python/vramtrace has annotations. Each name of a module is there only once.
STRICT = ("python/**/*.py",)
TYPED = ("analyzer/**/*.py", "docs/*.py", "examples/**/*.py", "packaging/*.py", "simulate/*.py", "tests/helpers.py", "tests/bench/*.py",
         "tests/browser/browser.py", "tests/browser/gallery.py", "tests/browser/recordings.py", "tests/corpus/*.py",
         "tests/frameworks/support.py", "tests/fuzz/mutate.py", "tests/golden/*.py", "tests/page/*.py", "tests/readers/*.py")
UNTYPED = ("tests/**", "preload/inspect/*.py", "simulate/python/**/*.py")  # programs under test, and what runs in the Python of others
WITHOUT_ANNOTATIONS = ("--config-file=", "--python-version=3.11", "--ignore-missing-imports", "--no-namespace-packages",
                       "--no-site-packages", "--check-untyped-defs", "--no-strict-optional", "--disable-error-code=var-annotated")

pytestmark = pytest.mark.skipif(not RUFF.exists() or not MYPY.exists(),
                                reason="ruff and mypy were not found: setup_readers of tests/setup.sh")


def tracked(*places):
    command = ["git", "ls-files", *(f":(glob){place}" for place in places)]
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [file for file in files if file.endswith(".py")]


def complaints(*command):
    checked = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT)
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr


def test_ruff():
    """Files that are named are read, whatever a setting leaves out."""
    assert complaints(RUFF, "check", "--no-cache", *tracked("**")) == ""


def test_mypy(tmp_path):
    cache = f"--cache-dir={tmp_path}"
    assert complaints(MYPY, cache, f"--python-executable={READERS}", *tracked(*STRICT)) == ""
    assert complaints(MYPY, cache, *WITHOUT_ANNOTATIONS, *tracked(*TYPED)) == ""


def names_of(tree):
    """All that a file binds anywhere, which is more than what others may import from it."""
    imports = (alias for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names)
    return {(alias.asname or alias.name).split(".")[0] for alias in imports} | {
        name for node in ast.walk(tree) for name in (getattr(node, "name", None), getattr(node, "id", None)) if name}


def test_names_imported_from_our_files_exist():
    """mypy does not read the programs and judges that tests run; and no test runs those for a GPU that is not there."""
    trees = {file: ast.parse((ROOT / file).read_text()) for file in tracked("**")}
    modules = {}  # last part of its name -> what the files of that name bind
    for file, tree in trees.items():
        modules.setdefault(pathlib.Path(file).stem, set()).update(names_of(tree))
    missing = [f"{file}: {alias.name} of {node.module}" for file, tree in trees.items() for node in ast.walk(tree)
               if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-1] in modules.keys() - {"mcp", "train"}
               for alias in node.names if alias.name not in modules[node.module.split(".")[-1]] | modules.keys()]
    assert missing == []


def test_every_file_is_read():
    assert set(tracked("**")) == set(tracked(*STRICT, *TYPED, *UNTYPED))


def test_mistakes_are_found(tmp_path):
    (tmp_path / "wrong.py").write_text("import os\n\n\ndef length(word):\n    return len(word, nmae)\n")
    found = complaints(RUFF, "check", "--no-cache", "--config", ROOT / "pyproject.toml", tmp_path)
    assert "F401" in found and "F821" in found
    assert "call-arg" in complaints(MYPY, f"--cache-dir={tmp_path}", *WITHOUT_ANNOTATIONS, tmp_path / "wrong.py")
