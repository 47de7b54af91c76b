"""The rules that the unwind tables give, at each place where they change, against binutils' readelf."""
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
SYSTEM = os.environ.get("QEMU_LD_PREFIX", "")  # of another architecture, whose programs qemu runs
FOLDERS = [pathlib.Path(SYSTEM + folder) for folder in (["/usr/lib/aarch64-linux-gnu"] if SYSTEM or platform.machine() == "aarch64" else
                                                        ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"]) + ["/lib64", "/usr/lib64"]]
LIBRARIES = ["libc.so.6", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libcrypto.so.3"]


def path_of(name):
    return next((folder / name for folder in FOLDERS if (folder / name).exists()), None)


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
                                                if rule not in ("u", "s") and not name.startswith("v")}  # AArch64's vectors
    listing.wait()


def our_rows(path, offsets):
    result = subprocess.run([ROWS, path], input="\n".join(f"{offset:x}" for offset in offsets), env=ENVIRONMENT,
                            capture_output=True, text=True, check=True)
    for line in result.stdout.splitlines():
        offset, _, rest = line.partition(" ")
        rules = dict(word.split("=", 1) for word in rest.split()) if rest != "none" else {}
        yield int(offset, 16), rules.pop("cfa", "none"), rules


@pytest.mark.skipif(not shutil.which("readelf"), reason="needs binutils")
@pytest.mark.parametrize("name", LIBRARIES + ["libvramtrace.so"])
def test_rules_are_readelfs(name):
    path = LIBRARY if name == "libvramtrace.so" else path_of(name)
    if path is None:
        pytest.skip(f"no {name} here")
    expected = {}
    for offset, cfa, rules in expected_rows(path):
        expected[offset] = (cfa, rules)  # the last row of a place holds
    assert len(expected) > 100
    wrong = [(hex(offset), (cfa, rules), expected[offset]) for offset, cfa, rules in our_rows(path, expected)
             if (cfa, rules) != expected[offset]]
    assert not wrong, f"{len(wrong)} of {len(expected)}: {wrong[:5]}"
