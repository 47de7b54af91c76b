"""Which folders of the analyzer include which: each only those before it, views nothing but the report. Which folders of the
recorder need which, calls included. No circles among files."""
import re
from pathlib import Path

import pytest

ANALYZER = Path(__file__).parent.parent.parent / "analyzer"

# In the order in which they may include each other: each those before it, and itself.
ORDER = ["base", "trace", "replay", "attribute", "report", "findings", "job", "view", "command"]
# Folders that may include less than that, also through what they include.
ONLY = {"view": {"base", "report", "view"}}
# Folders in which files still need each other.
CIRCLES = set()
# Of the sources of report/, views may include the headers of these; the others are for makers of the report.
SHOWN = {"annotation", "columns", "facts", "info", "launch_info", "modules", "peak_rows", "places", "report", "schema",
         "sources", "tables", "timeline", "top"}
# Headers that still promise what several sources define; none may be added.
SHARED = {"attribute/stack_traits.h", "trace/trace.h", "view/exports.h", "view/text/text.h", "view/text/views.h"}

ROOT = ANALYZER.parent
FILES = {str(path.relative_to(ANALYZER)): path for path in ANALYZER.rglob("*") if path.suffix in (".c", ".h", ".def")}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
WORD = re.compile(r"\bvt_\w+")
# A function or a variable that other files see: at the beginning of a line, with a body or a value, or a variable without one.
DEFINITION = re.compile(r"^(?!static|extern|typedef|#)\w[^;{}()=]*?(?:\(\*_Atomic )?\b(vt_\w+)(?:\([^;{}]*?\)\s*\{|(?:\)\(\w*\))?(?:\[\w*\])*"
                        r"(?:\s*__attribute__\(\(.*?\)\))?\s*[=;])", re.M)
# What a header promises: a function or a variable that is there only once.
DECLARATION = re.compile(r"^(?!static|typedef|#|struct \w+;)(?:extern )?\w[^;{}()=]*?(?:\(\*_Atomic )?\b(vt_\w+)(?:\)?\([^{};]*?\)|\[\w*\])*"
                         r"(?:\s*__attribute__\(\(.*?\)\))?;", re.M)


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


def is_for_makers(name):
    path = Path(name)
    return folder_of(name) == "report" and f"report/{path.stem}.c" in FILES and path.stem not in SHOWN


@pytest.mark.parametrize("folder", ORDER)
def test_a_folder_includes_those_before_it(folder):
    allowed = set(ORDER[:ORDER.index(folder) + 1])
    wrong = [f"{name} includes {other}" for name in sorted(FILES) if folder_of(name) == folder
             for other in included(name) if folder_of(other) not in allowed]
    assert not wrong, "\n".join(wrong)


def test_the_shared_coding_includes_nothing_of_either_half():
    wrong = [f"{path.name} includes {other}" for path in (ROOT / "format").iterdir()
             for other in INCLUDE.findall(path.read_text()) if not re.match(r"(format|vramtrace)/", other)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("folder", ONLY)
def test_a_folder_reaches_nothing_else(folder):
    wrong = [f"{name} reaches {other}" for name in sorted(FILES) if folder_of(name) == folder
             for other in sorted(reached(name)) if folder_of(other) not in ONLY[folder] or is_for_makers(other)]
    assert not wrong, "\n".join(wrong)


def needs_of(files):
    """For each of these files the others that it includes, or that define what it names."""
    texts = {name: COMMENT.sub("", path.read_text()) for name, path in files.items()}
    homes = {word: name for name, text in texts.items() if name.endswith(".c") for word in DEFINITION.findall(text)}
    return {name: {other for other in INCLUDE.findall(text) if other in texts} |
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
    circle = circle_in(needs_of({name: path for name, path in FILES.items() if folder_of(name) == folder}))
    assert not circle, " → ".join(circle)


def shared_headers(files):
    """Headers that declare what a source of another name defines. x.h declares what x.c defines, or what no source does."""
    texts = {name: COMMENT.sub("", path.read_text()) for name, path in files.items()}
    homes = {word: name for name, text in texts.items() if name.endswith(".c") for word in DEFINITION.findall(text)}
    return {name for name, text in texts.items() if name.endswith(".h")
            for word in DECLARATION.findall(text) if homes.get(word, name[:-1] + "c") != name[:-1] + "c"}


def test_each_header_is_of_one_file():
    assert shared_headers(FILES) == SHARED


def test_every_folder_is_known():
    assert {folder_of(name) for name in FILES} <= {*ORDER, "man"}


# ---- The recorder ----

PRELOAD = ROOT / "preload"
RECORDER = {str(path.relative_to(PRELOAD)): path for path in PRELOAD.rglob("*") if path.suffix in (".c", ".h", ".def")}
# "": what lies in preload/ itself. Each folder may need those before it, and itself; hooks.def is a table for all.
RECORDER_ORDER = ["", "loader", "stacks", "record", "inspect", "hooks"]


def recorder_folder(name):
    return name.rpartition("/")[0]


@pytest.mark.parametrize("folder", RECORDER_ORDER)
def test_a_recorder_folder_needs_only_those_before_it(folder):
    allowed = RECORDER_ORDER[:RECORDER_ORDER.index(folder) + 1]
    wrong = [f"{name} needs {other}" for name, needs in needs_of(RECORDER).items() if recorder_folder(name) == folder
             for other in needs if recorder_folder(other) not in allowed and other != "hooks/hooks.def"]
    assert not wrong, "\n".join(wrong)


def test_no_circle_among_the_recorders_files():
    circle = circle_in(needs_of(RECORDER))
    assert not circle, " → ".join(circle)


def test_each_recorder_header_is_of_one_file():
    instead = {"stacks/libunwind_queue.c"}  # of unwind_tables.c, with -Dunwinder=libunwind
    assert not shared_headers({name: path for name, path in RECORDER.items() if name not in instead})


def test_both_halves_share_only_the_format_and_the_options():
    shared = {other for path in ANALYZER.rglob("*.[ch]") for other in INCLUDE.findall(path.read_text()) if "preload/" in other}
    assert shared <= {"../preload/options.def", "../preload/option_values.h"}
    assert set(INCLUDE.findall((PRELOAD / "option_values.c").read_text())) <= {"option_values.h", "options.def"}
    taken = {other for path in PRELOAD.rglob("*.[chS]") for other in INCLUDE.findall(path.read_text())
             if not (PRELOAD / other).exists() and (ANALYZER / other).exists()}
    assert not taken
