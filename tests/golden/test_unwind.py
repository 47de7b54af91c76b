"""The rules that the unwind tables give, at each place where they change, against binutils' readelf and libunwind.

VRAMTRACE_UNWIND_LIBRARIES: paths of further libraries, by spaces."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, LIBRARY  # noqa: E402

ROWS = BUILD / "tests" / "unit" / "preload" / "unwind_rows"
LIBUNWIND_ROWS = ROWS.with_name("unwind_rows_libunwind")
SYSTEM = os.environ.get("QEMU_LD_PREFIX", "")  # of another architecture, whose programs qemu runs
FOLDERS = [pathlib.Path(SYSTEM + folder) for folder in (["/usr/lib/aarch64-linux-gnu"] if SYSTEM or platform.machine() == "aarch64" else
                                                        ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"]) + ["/lib64", "/usr/lib64"]]
LIBRARIES = ["libc.so.6", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libcrypto.so.3", "libpython3.*.so.1.0"]
OWN = {"libvramtrace.so": LIBRARY, "libcuda.so.1": BUILD / "simulate" / "libcuda.so.1"}
MORE = os.environ.get("VRAMTRACE_UNWIND_LIBRARIES", "").split()


def path_of(name):
    if name not in LIBRARIES:
        return OWN.get(name, pathlib.Path(name))
    return next((path for folder in FOLDERS for path in folder.glob(name)), None)


def expected_rows(path):
    """(offset, rules) of each row that readelf lists, in order."""
    listing = subprocess.Popen(["readelf", "-wF", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    columns, inside = [], False
    for line in listing.stdout:
        words = [word for word in line.split() if not word.startswith("(")]  # a name behind a register's number
        if len(words) > 3 and words[3] in ("FDE", "CIE"):
            inside = words[3] == "FDE"
        elif words[:2] == ["LOC", "CFA"]:
            columns = words[2:]
        elif inside and words and re.fullmatch("[0-9a-f]{16}", words[0]):
            rules = dict(zip(columns, words[2:]))
            yield int(words[0], 16), words[1], {name: rule for name, rule in rules.items()
                                                if rule not in ("u", "s") and not name.startswith(("v", "xmm"))}  # vectors
    listing.wait()


def rows_of(program, path, offsets):
    """What unwind_rows.c prints: {offset: (CFA, other rules)}."""
    result = subprocess.run([program, path], input="\n".join(f"{offset:x}" for offset in offsets), env=ENVIRONMENT,
                            capture_output=True, text=True)
    assert result.returncode == 0, f"{result.returncode}: {result.stderr}"
    rows = {}
    for line in result.stdout.splitlines():
        offset, _, rest = line.partition(" ")
        rules = dict(word.split("=", 1) for word in rest.split()) if rest != "none" else {}
        rows[int(offset, 16)] = rules.pop("cfa", "none"), rules
    return rows


def in_readelfs_words(cfa, rules):
    """Without what readelf does not tell: the bytes of expressions, and which frames are a signal's."""
    return cfa.split(":")[0], {name: rule.split(":")[0] for name, rule in rules.items() if name != "signal"}


def as_executed(offset, cfa, rules):
    """libunwind executes expressions. What the linker writes for its jump tables (PLT) depends on the address: breg7 8, breg16 0, lit15,
    and, litN, ge, lit3, shl, plus. Where libcrypto multiplies a register (r9 by 8), one step of a made-up frame cannot tell the rule."""
    if cfa == "exp:77087900381e22062308":
        return "none", {}
    plt = re.fullmatch("exp:770880003f1a([34].)2a332422", cfa)
    return f"rsp+{8 + 8 * (offset % 16 >= int(plt[1], 16) - 0x30)}" if plt else cfa, rules


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs binutils")
@pytest.mark.parametrize("name", LIBRARIES + list(OWN) + MORE)
def test_rules_are_readelfs_and_libunwinds(name):
    path = path_of(name)
    if path is None:
        pytest.skip(f"no {name} here")
    expected = {}
    for offset, cfa, rules in expected_rows(path):
        expected[offset] = (cfa, rules)  # the last row of a place holds
    assert len(expected) > 100
    ours = rows_of(ROWS, path, expected)
    wrong = [(hex(offset), ours[offset], row) for offset, row in expected.items() if in_readelfs_words(*ours[offset]) != row]
    assert not wrong, f"{len(wrong)} of {len(expected)} are not readelf's: {wrong[:5]}"
    if not LIBUNWIND_ROWS.exists():
        assert SYSTEM or not os.environ.get("VRAMTRACE_CI"), "tests/setup.sh should have installed libunwind-dev before the build"
        pytest.skip(f"equal to readelf's at {len(expected)} places; not compared with libunwind's, as libunwind-dev is not here")
    theirs = rows_of(LIBUNWIND_ROWS, path, expected)
    wrong = [(hex(offset), (cfa, rules), theirs[offset]) for offset, (cfa, rules) in ours.items()
             if as_executed(offset, cfa, rules) != theirs[offset]]
    assert not wrong, f"{len(wrong)} of {len(expected)} are not libunwind's: {wrong[:5]}"
    untold = sum(theirs[offset] == ("none", {}) != row for offset, row in ours.items())
    print(f"{path.name}: {len(expected)} places, as readelf says, and as libunwind says; it has no rule for {untold} of them")
