"""Which folders of the analyzer include which: each only those before it, views nothing but the report. No circles inside."""
import re
from pathlib import Path

import pytest

ANALYZER = Path(__file__).parent.parent.parent / "analyzer"

# In the order in which they may include each other: each those before it, and itself.
ORDER = ["base", "trace", "replay", "attribute", "report", "diagnose", "job", "view", "command"]
# Folders that may include less than that, also through what they include.
ONLY = {"view": {"base", "report", "view"}}
# Folders in which files still need each other.
CIRCLES = set()
# Headers of these are for makers of the report only.
PARTS = {"report/parts.h", "report/group_table.h"}

FILES = {str(path.relative_to(ANALYZER)): path for path in ANALYZER.rglob("*") if path.suffix in (".c", ".h", ".def")}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
WORD = re.compile(r"\bvt_\w+")
# A function or a variable that other files see: at the beginning of a line, with a body or a value.
DEFINITION = re.compile(r"^(?!static|extern|typedef|#)\w[^;{}()=]*?\b(vt_\w+)(?:\([^;{}]*?\)\s*\{|(?:\[\w*\])*\s*=)", re.M)


def included(name):
    """The analyzer's own files that a file includes."""
    return [other for other in INCLUDE.findall(FILES[name].read_text()) if other in FILES]


def reached(name):
    """All that a file includes, by itself or through others."""
    found, left = set(), included(name)
    while left:
        other = left.pop()
        if other not in found:
            found.add(other)
            left += included(other)
    return found


def folder_of(name):
    return name.split("/")[0]


@pytest.mark.parametrize("folder", ORDER)
def test_a_folder_includes_those_before_it(folder):
    allowed = set(ORDER[:ORDER.index(folder) + 1])
    wrong = [f"{name} includes {other}" for name in sorted(FILES) if folder_of(name) == folder
             for other in included(name) if folder_of(other) not in allowed]
    assert not wrong, "\n".join(wrong)


def test_the_shared_coding_includes_nothing_of_either_half():
    wrong = [f"{path.name} includes {other}" for path in (ANALYZER.parent / "format").iterdir()
             for other in INCLUDE.findall(path.read_text()) if not re.match(r"(format|vramtrace)/", other)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", ONLY)
def test_a_folder_reaches_nothing_else(folder):
    wrong = [f"{name} reaches {other}" for name in sorted(FILES) if folder_of(name) == folder
             for other in sorted(reached(name)) if folder_of(other) not in ONLY[folder] or other in PARTS]
    assert not wrong, "\n".join(wrong)


def needs_of(folder):
    """For each file of a folder the others that it includes, or that define what it names."""
    texts = {name: COMMENT.sub("", path.read_text()) for name, path in FILES.items() if folder_of(name) == folder}
    homes = {word: name for name, text in texts.items() if name.endswith(".c") for word in DEFINITION.findall(text)}
    return {name: {other for other in included(name) if other in texts} |
                  {homes[word] for word in WORD.findall(text) if name.endswith(".c") and homes.get(word, name) != name}
            for name, text in texts.items()}


def circle_in(needs):
    """Files that need each other, the first of them again at the end, or None."""
    clear = set()

    def visit(name, path):
        if name in path:
            return [*path[path.index(name):], name]
        if name in clear:
            return None
        for other in sorted(needs[name]):
            if found := visit(other, [*path, name]):
                return found
        clear.add(name)
        return None

    return next(filter(None, (visit(name, []) for name in sorted(needs))), None)


@pytest.mark.parametrize("folder", sorted(set(ORDER) - CIRCLES))
def test_no_circle_among_files(folder):
    circle = circle_in(needs_of(folder))
    assert not circle, " → ".join(circle)


def test_every_folder_is_known():
    assert {folder_of(name) for name in FILES} <= {*ORDER, "man"}


# ---- The shim ----

PRELOAD = ANALYZER.parent / "preload"
# Each may include those before it, itself, and what lies in preload/ itself; hooks.def is a table for all.
SHIM_ORDER = ["loader", "stacks", "record", "inspect", "hooks"]


@pytest.mark.parametrize("folder", SHIM_ORDER)
def test_shim_folder_includes_only_those_before_it(folder):
    allowed = set(SHIM_ORDER[:SHIM_ORDER.index(folder) + 1])
    wrong = []
    for path in sorted((PRELOAD / folder).iterdir()):
        for other in INCLUDE.findall(path.read_text()):
            if (PRELOAD / other).exists() and "/" in other and other.split("/")[0] not in allowed and other != "hooks/hooks.def":
                wrong.append(f"{path.name} includes {other}")
    assert not wrong


def test_both_halves_share_only_the_format_and_the_options():
    shared = {other for path in ANALYZER.rglob("*.[ch]") for other in INCLUDE.findall(path.read_text()) if "preload/" in other}
    assert shared <= {"../preload/options.def", "../preload/option_values.h"}
    assert set(INCLUDE.findall((PRELOAD / "option_values.c").read_text())) <= {"option_values.h", "options.def"}
    taken = {other for path in PRELOAD.rglob("*.[chS]") for other in INCLUDE.findall(path.read_text())
             if not (PRELOAD / other).exists() and (ANALYZER / other).exists()}
    assert not taken
