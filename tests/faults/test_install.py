"""The user's own line, word for word, after `meson install`."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, LIBRARY, PYTHON, ROOT, RUN, vramtrace  # noqa: E402

# In a mount namespace of its own, where what is installed and the loader's cache are seen by nobody else.
PRIVATE = """
set -e
mount -t tmpfs tmpfs "$FOLDER"
for place in usr/local etc; do
    mkdir -p "$FOLDER/$place/upper" "$FOLDER/$place/work"
    mount -t overlay overlay -o "lowerdir=/$place,upperdir=$FOLDER/$place/upper,workdir=$FOLDER/$place/work" "/$place"
done
"""
WORDS = """
meson install -C "$VRAMTRACE_BUILD" --no-rebuild --quiet
cd "$WORK"
test "$(vramtrace lib)" -ef "$(ldconfig -p | awk '$1 == "libvramtrace.so" { print $NF }')"
PATH=$(dirname "$VRAMTRACE_TEST_PYTHON"):$PATH
LD_PRELOAD=libvramtrace.so python train.py --steps 2
vramtrace report vramtrace.*.vrt
"""


def test_lib_of_the_build_folder():
    assert pathlib.Path(vramtrace("lib").stdout.strip()).resolve() == LIBRARY.resolve()


def test_after_install(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace of its own")
    mounts, work = tmp_path / "mounts", tmp_path / "work"
    mounts.mkdir()
    work.mkdir()
    (work / "train.py").write_text((ROOT / "examples" / "train.py").read_text())
    environment = dict(os.environ, FOLDER=str(mounts), WORK=str(work), VRAMTRACE_BUILD=str(BUILD),
                       VRAMTRACE_TEST_PYTHON=PYTHON)
    allowed = subprocess.run(["unshare", "-m", "bash", "-c", PRIVATE], env=environment, capture_output=True, text=True)
    if allowed.returncode:
        pytest.skip(f"no mount namespace here: {allowed.stderr.strip()}")
    done = subprocess.run([*RUN, "unshare", "-m", "bash", "-c", PRIVATE + WORDS], env=environment, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Peak" in done.stdout, done.stdout
    assert len(list(work.glob("vramtrace.*.vrt"))) == 1
