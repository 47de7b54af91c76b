"""The tree's own rules: files and functions short enough to read, one meaning for each structure's name."""
import collections
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[2]
PRODUCT = ("analyzer", "preload", "format", "include", "python")
TRACKED = [ROOT / name for name in
           subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                          check=True).stdout.splitlines()
           if (ROOT / name).is_file()]
SOURCES = [path for path in TRACKED if path.relative_to(ROOT).parts[0] in PRODUCT]
C_FILES = [path for path in SOURCES if path.suffix in (".c", ".h")]
# Longer ones that are still to be split; none may be added.
LONG = {"analyzer/diagnose/gpu_accounting.c", "analyzer/report/tables.c", "preload/record/gap.c"}
MOST_LINES, MOST_PAGE_LINES, MOST_FUNCTION_LINES = 500, 400, 64

COMMENT = re.compile(r"/\*.*?\*/", re.S)
STRUCT = re.compile(r"^(?:struct|union|enum) (vt_\w+) \{", re.M)
FUNCTION = re.compile(r"^(?!typedef|struct|union|enum|#)(\w[^\n;]*?\b(\w+)\([^;{}]*\))\n\{\n(.*?)^\}", re.M | re.S)


def name_of(path):
    return str(path.relative_to(ROOT))


def test_no_long_file():
    limit = {path: MOST_PAGE_LINES if "html/page" in name_of(path) else MOST_LINES for path in SOURCES if path.suffix != ".def"}
    long = {name_of(path): count for path in limit if (count := len(path.read_text().splitlines())) > limit[path]}
    assert long.keys() == LONG, long


def test_no_long_function():
    long = {f"{name_of(path)}: {name}": lines for path in C_FILES for _, name, body in FUNCTION.findall(path.read_text())
            if (lines := body.count("\n") + 3) > MOST_FUNCTION_LINES}
    assert not long


def test_a_structure_has_one_definition():
    places = collections.defaultdict(list)
    for path in C_FILES:
        for name in STRUCT.findall(COMMENT.sub("", path.read_text())):
            places[name].append(name_of(path))
    assert not {name: where for name, where in places.items() if len(where) > 1}
