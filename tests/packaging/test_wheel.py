"""The wheel that tests/packaging/run.sh built of this tree, installed into empty environments: command, library, module, notebooks."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from harness import STANDIN  # noqa: E402
from helpers import ROOT  # noqa: E402
from test_python_traces import FOUND  # noqa: E402

BUILDER = os.environ.get("VRAMTRACE_PACKAGING")
WHEEL = os.environ.get("VRAMTRACE_WHEEL")
pytestmark = [pytest.mark.skipif(not BUILDER, reason="VRAMTRACE_PACKAGING is not set: tests/setup.sh setup_packaging"),
              pytest.mark.skipif(not WHEEL, reason="VRAMTRACE_WHEEL is not set: tests/packaging/run.sh short")]
ENVIRONMENT = {**{name: value for name, value in os.environ.items() if not name.startswith(("LD_", "VRAMTRACE_", "PYTHON"))},
               "LD_LIBRARY_PATH": str(STANDIN)}


def call(*command, check=True, **options):
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True,
                          env={**ENVIRONMENT, **options.pop("environment", {})}, timeout=300, **options)
    assert not check or done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="session")
def wheel():
    return pathlib.Path(WHEEL)


# The oldest and the newest; all of them where there is time (tests/packaging/run.sh).
SUPPORTED = sorted(minor for minor in FOUND if minor >= 8)
TRIED = SUPPORTED if os.environ.get("VRAMTRACE_EVERY_PYTHON") else sorted({SUPPORTED[0], SUPPORTED[-1]})


@pytest.fixture(scope="session", params=TRIED)
def environment(request, wheel, tmp_path_factory):
    """An empty environment with nothing but the wheel."""
    environment = tmp_path_factory.mktemp(f"py3.{request.param}") / "env"
    call(FOUND[request.param], "-m", "venv", "--without-pip", environment)
    # uv, since no pip runs on the oldest of them and on the newest
    call(BUILDER, "-m", "uv", "pip", "install", "-q", "--no-index", "--no-deps", "--python", environment / "bin" / "python", wheel)
    return environment


def test_one_wheel_for_every_python(wheel):
    version = json.loads(call("meson", "introspect", "--projectinfo", ROOT / "meson.build").stdout)["version"]
    assert re.fullmatch(rf"vramtrace-{version}-py3-none-(linux|manylinux_2_28)_{os.uname().machine}\.whl", wheel.name)
    assert (ROOT / "debian/changelog").read_text().startswith(f"vramtrace ({version}) ")
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if not name.startswith(("vramtrace/", f"vramtrace-{version}."))]
    for end in ("scripts/vramtrace", "data/lib/vramtrace/libvramtrace.so", "vramtrace/__init__.py", "vramtrace/py.typed",
                "share/man/man1/vramtrace-run.1", "share/man/man5/vramtrace-json.5", "bash-completion/completions/vramtrace",
                "site-functions/_vramtrace"):
        assert sum(name.endswith(end) for name in names) == 1, end


def test_source_package(wheel):
    """It has what the wheel was built from, and nothing else."""
    archive = next(wheel.parent.glob("*.tar.gz"), None)
    if not archive:
        pytest.skip("a wheel of this machine is not built from it")
    names = {name.split("/")[1] for name in tarfile.open(archive).getnames() if "/" in name}
    assert names == {"LICENSE", "NEWS", "PKG-INFO", "README.md", "analyzer", "format", "include", "meson.build", "meson_options.txt",
                     "packaging", "preload", "pyproject.toml", "python", "simulate"}


def test_the_recorder_needs_the_c_library_alone(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        name, = [name for name in archive.namelist() if name.endswith("/libvramtrace.so")]
        archive.extract(name, tmp_path)
    needed = re.findall(r"NEEDED.*\[(.*)\]", call("readelf", "-dW", tmp_path / name).stdout)
    assert set(needed) <= {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}


PROGRAM = """
import ctypes, json, threading, vramtrace
cuda = ctypes.CDLL("libcuda.so.1")
context, address = ctypes.c_void_p(), ctypes.c_uint64()
def check(result): assert result == 0, result
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(3 << 20)))
class Bad:
    def __str__(self): raise ValueError
@vramtrace.region("decorated")
def decorated(): return vramtrace.mark("inside")
class Mine(Exception): pass
said = [vramtrace.loaded(), vramtrace.mark("first"), vramtrace.mark("é€😀\\n<b>"), vramtrace.mark("x" * 10000), vramtrace.mark(b"bytes"),
        vramtrace.mark(Bad()), vramtrace.mark("\\ud800"), vramtrace.step(), vramtrace.inspect("look"), decorated()]
try:
    with vramtrace.region("outer"), vramtrace.region("inner"):
        raise Mine
except Mine:
    pass
def many(): [vramtrace.mark("thread") for _ in range(100)]
threads = [threading.Thread(target=many) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(json.dumps([said, vramtrace.trace_path()]))
"""
EXPECTED = [("mark", "first"), ("mark", "é€😀\n<b>"), ("mark", "x" * 1023), ("mark", "bytes"), ("mark", "?"), ("mark", "?"),
            ("mark", "vramtrace.step"), ("mark", "look"), ("range_push", "decorated"), ("mark", "inside"), ("range_pop", None),
            ("range_push", "outer"), ("range_push", "inner"), ("range_pop", None), ("range_pop", None)]


def test_marks_regions_and_steps(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = call(environment / "bin" / "python", "-m", "vramtrace", "run", "-o", "x.vrt", "program.py", cwd=tmp_path)
    assert json.loads(done.stdout) == [[True] * 10, str(tmp_path / "x.vrt")]
    told = [json.loads(line) for line in
            call(environment / "bin" / "vramtrace", "info", "--events", "--json", tmp_path / "x.vrt").stdout.splitlines()]
    seen = [(event["kind"], event.get("text", event.get("name"))) for event in told
            if event["kind"] in ("mark", "range_push", "range_pop")]
    assert [event for event in seen if event[1] != "thread"] == EXPECTED
    assert seen.count(("mark", "thread")) == 400


DRY = """
import ctypes, sys
for name in ("cuda.so.1", "cudart.so.12", "cudart.so.13", "cublas.so.12", "cublas.so.13", "cudnn.so.9", "nccl.so.2", "cufft.so.12"):
    ctypes.CDLL("lib" + name)
ctypes.PyDLL("libvramtrace_around.so")
assert hasattr(ctypes.CDLL("libcuda.so.1"), "standin_answer") and "vramtrace_dryrun" in sys.modules
"""


def test_a_dry_run_has_all_its_libraries(environment, tmp_path):
    (tmp_path / "program.py").write_text(DRY + PROGRAM)
    done = call(environment / "bin" / "python", "-m", "vramtrace", "dryrun", "-o", "x.vrt", "program.py", cwd=tmp_path,
                environment={"LD_LIBRARY_PATH": ""})
    assert json.loads(done.stdout) == [[True] * 10, str(tmp_path / "x.vrt")]
    assert "fits on NVIDIA H100 80GB HBM3: 603 MiB of 79.2 GiB" in done.stderr, done.stderr


def test_nothing_without_the_recorder(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = call(environment / "bin" / "python", "program.py", cwd=tmp_path)
    assert json.loads(done.stdout) == [[False] * 10, None]
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


def test_report_and_library(environment, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    python, program = environment / "bin" / "python", environment / "bin" / "vramtrace"
    assert program.read_bytes()[:4] == b"\x7fELF"
    assert call(program, "lib").stdout.strip() == str((environment / "lib/vramtrace/libvramtrace.so").resolve())
    call(program, "run", "-o", "x.vrt", python, "program.py", cwd=tmp_path)
    script = ("import json, vramtrace; print(json.dumps([vramtrace.report('x.vrt'), vramtrace.program()]))\n"
              "try: vramtrace.report('missing.vrt')\nexcept vramtrace.Error as error: print(error)")
    said, error = call(python, "-c", script, cwd=tmp_path).stdout.splitlines()
    report, path = json.loads(said)
    assert report == json.loads(call(program, "report", "--json", "x.vrt", cwd=tmp_path).stdout)
    assert report["devices"][0]["peak"]["driver_bytes"] - report["devices"][0]["peak"]["context_bytes"] == 3 << 20 and path == str(program)
    assert "missing.vrt" in error
    assert "0x" not in call(python, "-m", "vramtrace", "report", "x.vrt", cwd=tmp_path).stderr
    assert call(python, "-m", "vramtrace", "nonsense", check=False).returncode == 2
    refused = call(python, "-m", "vramtrace", "export", "--format", "parquet", "-o", "x", "x.vrt", cwd=tmp_path, check=False,
                   environment={"VRAMTRACE_PYTHON": ""})
    assert f"which {python} does not have" in refused.stderr


def test_interpreter_is_for_scripts_only(environment, tmp_path):
    python = environment / "bin" / "python"
    (tmp_path / "who.py").write_text("import os, sys; print(sys.executable, os.environ.get('VRAMTRACE_INTERPRETER'), *sys.argv[1:])")
    for words in ([], ["--quiet"], ["-o", "x.vrt", "--"]):
        done = call(python, "-m", "vramtrace", "run", *words, "who.py", "a b", "--c", cwd=tmp_path)
        assert done.stdout.split("\n")[0] == f"{python} None a b --c"
    assert call(python, "-m", "vramtrace", "run", "echo", "x.py", cwd=tmp_path).stdout == "x.py\n"
    # By its path it runs the Python of its environment.
    assert call(environment / "bin" / "vramtrace", "run", "who.py", cwd=tmp_path).stdout == f"{python} None\n"


ALLOCATE = """import ctypes
cuda = ctypes.CDLL("libcuda.so.1"); context, address = ctypes.c_void_p(), ctypes.c_uint64()
[cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t({bytes}))"""


@pytest.fixture(scope="module")
def kernel(wheel, tmp_path_factory):
    """A notebook's kernel under the recorder, as `python -m vramtrace kernel install` makes it. Its environment sees the
    builder's IPython, and has the wheel."""
    folder = tmp_path_factory.mktemp("notebook")
    call(BUILDER, "-m", "venv", "--without-pip", "--system-site-packages", folder / "env")
    python = folder / "env" / "bin" / "python"
    site = call(BUILDER, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    own = call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    pathlib.Path(own, "builder.pth").write_text(site + "\n")
    call(BUILDER, "-m", "pip", "--python", python, "install", "-q", "--no-index", "--no-deps", wheel)
    spec = call(python, "-m", "vramtrace", "kernel", "install", "--prefix", folder).stdout.strip()
    assert json.loads(pathlib.Path(spec).read_text())["argv"][0] == str(folder / "env" / "bin" / "vramtrace")
    cells = {
        "outside": ALLOCATE.format(bytes=5 << 20),
        "load": "%load_ext vramtrace",
        "own": "%vramtrace report --at end",
        "cell": f"%%vramtrace --quiet\nprint('hello from the cell')\n{ALLOCATE.format(bytes=7 << 20)}",
        "page": "%vramtrace html --height 300",
        "wrong": "%vramtrace report missing.vrt",
    }
    client = pathlib.Path(__file__).with_name("notebook.py")
    done = call(BUILDER, client, "vramtrace", json.dumps(cells), cwd=folder,
                environment={"JUPYTER_PATH": str(folder / "share" / "jupyter"), "HOME": str(folder)})
    return json.loads(done.stdout), call(folder / "env" / "bin" / "vramtrace", "help").stdout


def test_kernel_sees_its_own_trace(kernel):
    assert "5 MiB in use at the end" in kernel[0]["own"]["text"] and "peak 5 MiB" in kernel[0]["own"]["text"]


def test_cell_as_a_program(kernel):
    text = kernel[0]["cell"]["text"]
    assert "hello from the cell" in text and "7 MiB" in text and "5 MiB" not in text


def test_wrong_words_in_a_notebook(kernel):
    assert "missing.vrt" in kernel[0]["wrong"]["text"]


def test_page_in_a_notebook(kernel):
    answers, commands = kernel
    if "vramtrace html" not in commands:
        pytest.skip("this vramtrace has no html command yet")
    page = answers["page"]["html"]
    assert page.startswith("<iframe sandbox=") and "allow-same-origin" not in page and "height: 300px" in page
