"""NVIDIA's own libcudart, from PyPI, looks up its driver functions: all that we hook must be our wrappers.

It then refuses the stand-in driver, which is its right: only the lookup is tested.
"""
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest

from harness import HERE, run

CACHE = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache" / "vramtrace")) / "wheels"
HOOKED = set(re.findall(r"^VT_WRAPPED\((\w+)", (HERE.parent.parent / "preload" / "hooks" / "hooks.def").read_text(), re.M))
RELEASES = {  # package, its version, the library's name, hooked functions that it keeps
    "11.8": ("nvidia-cuda-runtime-cu11", "11.8.*", "libcudart.so.11.0", 52),
    "12.8": ("nvidia-cuda-runtime-cu12", "12.8.*", "libcudart.so.12", 61),
    "13.0": ("nvidia-cuda-runtime", "13.0.*", "libcudart.so.13", 61),
}


def wheel(package, version):
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not any(CACHE.glob(pattern)):
        CACHE.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", CACHE,
                               f"{package}=={version}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"{package}=={version} is neither in {CACHE} nor to be had from PyPI")
    return next(CACHE.glob(pattern))


def kept(done, name):
    return [line.split()[:2] for line in done.output.splitlines()[1:] if line.endswith(f" {name}")]


@pytest.mark.parametrize("release", RELEASES)
def test_lookups(tmp_path, recorder, release):
    package, version, name, least = RELEASES[release]
    with zipfile.ZipFile(wheel(package, version)) as archive:
        member = next(member for member in archive.namelist() if member.endswith("/" + name))
        library = archive.extract(member, tmp_path)
    command = ["cudart_pointers", library, "cudaGetDeviceCount"]
    done, plain = run(tmp_path, command, recorder), run(tmp_path, command, None)
    assert done.returncode == 0, done.output + done.error
    pointers = {}
    for where, symbol in kept(done, name):
        pointers.setdefault(where, set()).add(symbol)
    assert not pointers["driver"] & HOOKED
    ours = pointers["recorder"] & HOOKED
    assert len(ours) >= least, sorted(ours)
    assert {"cuMemAlloc_v2", "cuMemFree_v2", "cuMemAllocManaged", "cuMemHostAlloc", "cuMemAllocAsync",
            "cuGetProcAddress"} <= ours
    # The same lookups, and the same end.
    assert done.output.splitlines()[0] == plain.output.splitlines()[0]
    assert pointers["driver"] | ours == {symbol for _, symbol in kept(plain, name)}
    assert not done.recorded  # looking up is no use of CUDA
