"""Which folders of the analyzer include which: each only those before it, views nothing but the report."""
import re
from pathlib import Path

import pytest

ANALYZER = Path(__file__).parent.parent.parent / "analyzer"

# In the order in which they may include each other: each those before it, and itself.
ORDER = ["base", "trace", "replay", "attribute", "report", "diagnose", "view", "command"]
# Folders that may include less than that, also through what they include.
ONLY = {"view": {"base", "report", "view"}}
# Headers of these are for makers of the report only.
PARTS = {"report/parts.h", "report/group_table.h"}

FILES = {str(path.relative_to(ANALYZER)): path for path in ANALYZER.rglob("*") if path.suffix in (".c", ".h", ".def")}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


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


@pytest.mark.parametrize("folder", ONLY)
def test_a_folder_reaches_nothing_else(folder):
    wrong = [f"{name} reaches {other}" for name in sorted(FILES) if folder_of(name) == folder
             for other in sorted(reached(name)) if folder_of(other) not in ONLY[folder] or other in PARTS]
    assert not wrong, "\n".join(wrong)


def test_no_circle_among_units_of_view():
    """A unit is a source with its header: two that need each other are one."""
    units = {}
    for name in FILES:
        if folder_of(name) == "view":
            others = {other.rsplit(".", 1)[0] for other in included(name) if folder_of(other) == "view"}
            units.setdefault(name.rsplit(".", 1)[0], set()).update(others)
    circles, clear = [], set()

    def visit(unit, path):
        if unit in path:
            circles.append(" → ".join([*path[path.index(unit):], unit]))
        elif unit not in clear:
            for other in sorted(units.get(unit, set()) - {unit}):
                visit(other, [*path, unit])
            clear.add(unit)

    for unit in sorted(units):
        visit(unit, [])
    assert not circles, "\n".join(circles)


def test_every_folder_is_known():
    assert {folder_of(name) for name in FILES} <= {*ORDER, "man"}
