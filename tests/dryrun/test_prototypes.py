"""simulate/prototypes/ against the headers and libraries of one CUDA release, 13.2, as NVIDIA's packages on PyPI have them.

Of a wheel only the headers are fetched (range requests), and the libraries of at most SMALL bytes: 5 MB instead of 2.5 GB, kept in
the cache. So of the large libraries the names and kinds of all functions that a header declares are compared, and of the small
ones each function that is there, and its version."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "simulate"))
import extract  # noqa: E402
import library  # noqa: E402

CACHE = pathlib.Path(os.environ.get("VRAMTRACE_CACHE", pathlib.Path.home() / ".cache" / "vramtrace")) / "wheels" / "prototypes-13.2"
RELEASE, SMALL = "13", 3 << 20
PACKAGES = ("nvidia-cublas==13.4.1.3 nvidia-cuda-cupti==13.2.86 nvidia-cuda-nvrtc==13.2.86 nvidia-cuda-runtime==13.2.86 "
            "nvidia-cudnn-cu13==9.26.0.51 nvidia-cufft==12.2.0.57 nvidia-cufile==1.17.1.22 nvidia-cusolver==12.2.0.11 "
            "nvidia-cusparse==12.7.10.12 nvidia-cusparselt-cu13==0.8.1 nvidia-nccl-cu13==2.30.7 nvidia-nvjitlink==13.5.37").split()


def skip(why):
    pytest.skip(f"NVIDIA's headers are neither in {CACHE} nor to be had from PyPI: {why}")


def addresses():
    """Of the wheels, as pip finds them; pip fetches only what describes them."""
    command = ["install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet", "--report", "-", "--only-binary", ":all:"]
    done = subprocess.run([sys.executable, "-m", "pip", *command, *PACKAGES], capture_output=True, text=True, check=False)
    if done.returncode:
        skip(done.stderr.strip()[-200:])
    return [package["download_info"]["url"] for package in json.loads(done.stdout)["install"]]


def fetch(folder):
    from pip._internal.network.lazy_wheel import HTTPRangeRequestUnsupported, LazyZipOverHTTP
    from pip._internal.network.session import PipSession
    try:
        for address in addresses():
            with LazyZipOverHTTP(address, PipSession()) as wheel, zipfile.ZipFile(wheel) as archive:
                for member in archive.infolist():
                    is_library = "/lib/lib" in member.filename and ".so" in member.filename and member.compress_size <= SMALL
                    if is_library or member.filename.endswith((".h", ".hpp")):
                        archive.extract(member, folder)
    except (OSError, HTTPRangeRequestUnsupported) as error:
        skip(error)


@pytest.fixture(scope="module")
def packages():
    if not CACHE.exists():
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
            fetch(folder)
            pathlib.Path(folder, "nvidia").rename(CACHE)
    return CACHE


@pytest.fixture(scope="module")
def folders(packages, tmp_path_factory):
    return extract.include_folders(packages, tmp_path_factory.mktemp("headers"))


def committed(name):
    """{function: (letters, version)} of this release."""
    nodes, functions = library.read(name)
    return {function: (letters, nodes[RELEASE][1] if version is None else version)
            for letters, function, version, releases in functions if RELEASE in releases}


@pytest.mark.parametrize("name", sorted(stem[3:] for stem, headers in extract.HEADERS.items()
                                        if headers and stem != "libcurand"))  # PyTorch does not load curand
def test_kinds_of_parameters(name, folders):
    assert library.read(name)[0][RELEASE][2] == (extract.version(f"lib{name}", folders) or "")
    told, ours = extract.kinds(f"lib{name}", folders), committed(name)
    assert {function: letters for function, (letters, _) in ours.items() if function in told} == {
        function: letters or "i()" for function, letters in told.items() if function in ours}
    assert {letters for function, (letters, _) in ours.items() if function not in told and letters[0] != "x"} <= {"i()"}


def test_names_and_versions(packages):
    used = {function for path in (ROOT / "simulate" / "prototypes").glob("*.def") for function in committed(path.stem)}
    found = extract.libraries(packages, used)
    assert set(found) == {"libcudnn", "libcufile", "libcupti"}
    for stem, (soname, symbols) in found.items():
        assert soname == library.read(stem[3:])[0][RELEASE][0]
        assert {function: version for function, (version, _) in symbols.items()} == {
            function: version for function, (_, version) in committed(stem[3:]).items()}

