"""The simulated libraries come in front of a program's own, however it asks for them; and what the command refuses."""
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dry import ENVIRONMENT, HERE, PROGRAM, dry
from helpers import BUILD

DECOY = 'int cuInit(unsigned flags) { return 666; }\nconst char *nvrtcGetErrorString(int e) { return "own"; }\n'
ASKS = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    if (!library) { puts(dlerror()); return 1; }
    printf("%s %s\n", dlsym(library, "standin_calls") ? "simulated" : "own", dlsym(library, "nvrtcGetErrorString") ? "with" : "without");
    return 0;
}
"""
LINKED = """
#include <stdio.h>
int cuInit(unsigned flags);
int main(void) { printf("%d\\n", cuInit(0)); return 0; }
"""


# A library with NVIDIA's runtime inside, and one that asks the driver for all that there is, as cuda-python does.
ENGINE = """
#include <cuda_runtime_api.h>
int count(void) { int found = 0; return cudaGetDeviceCount(&found) ? -1 : found; }
"""
LOOKS_UP = """
#include <cuda.h>
int count(void)
{
    void *found;
    for (int i = 0; i < 1000; i++) if (cuGetProcAddress("cuMemAlloc", &found, 12000, 0, NULL)) return -1;
    return 1;
}
"""
COUNTS = """
#include <stdio.h>
int count(void);
int main(void) { printf("%d\\n", count()); return 0; }
"""
TOOLKIT = Path(os.environ.get("VRAMTRACE_CUDA_INCLUDE", "/usr/local/cuda/include")).parent
STATIC = TOOLKIT / "lib64" / "libcudart_static.a"


def compiled(path, text, *options):
    subprocess.run(["cc", "-x", "c", "-", "-x", "none", "-o", path, *options], input=text, text=True, check=True)


@pytest.fixture
def own(tmp_path):
    """A folder with libraries as NVIDIA's packages have them."""
    folder = tmp_path / "nvidia"
    folder.mkdir()
    for name in ("libcuda.so.1", "libnvrtc.so.13", "libnvJitLink.so.13"):
        compiled(folder / name, DECOY, "-shared", "-fPIC", f"-Wl,-soname,{name}")
    (folder / "libcuda.so").symlink_to("libcuda.so.1")
    return folder


@pytest.mark.parametrize("tag", ["--disable-new-dtags", "--enable-new-dtags"])
def test_a_library_that_the_program_is_linked_with(own, tag, tmp_path):
    compiled(tmp_path / "x", LINKED, f"-L{own}", "-lcuda", "-Wl,-rpath," + str(own), f"-Wl,{tag}")
    assert subprocess.run([tmp_path / "x"], capture_output=True, text=True, check=True).stdout == "666\n"
    assert dry(tmp_path, [tmp_path / "x"]).output == "0\n"


@pytest.mark.parametrize("asked,answer", [("libcuda.so.1", "simulated"), ("{own}/libcuda.so.1", "simulated"),
                                          ("{own}/libnvrtc.so.13", "own"), ("libnvrtc.so.13", "own"), ("libnvJitLink.so.13", "own"),
                                          ("/lib/absent/libcudnn.so.9", "own")])
def test_a_library_that_is_opened(own, asked, answer, tmp_path):
    """nvrtc and nvJitLink are the program's own if it has them; cuDNN it has none, and gets ours."""
    compiled(tmp_path / "x", ASKS, "-ldl", "-Wl,-rpath," + str(own), "-Wl,--enable-new-dtags")
    done = dry(tmp_path, [tmp_path / "x", asked.format(own=own)])
    assert done.output == f"{answer} {'without' if 'cudnn' in asked or answer == 'simulated' else 'with'}\n", done.error


def test_nvrtc_is_ours_where_the_program_has_none(tmp_path):
    compiled(tmp_path / "x", ASKS, "-ldl")
    assert dry(tmp_path, [tmp_path / "x", "libnvrtc.so.13"]).output == "own with\n"


def test_children_inherit_it(own, tmp_path):
    compiled(tmp_path / "x", LINKED, f"-L{own}", "-lcuda", "-Wl,-rpath," + str(own))
    assert dry(tmp_path, ["sh", "-c", f"sh -c {tmp_path}/x"]).output == "0\n"


def test_nothing_is_left_behind(tmp_path):
    folder = dry(tmp_path, ["sh", "-c", "test -d $VRAMTRACE_STANDIN_ROOMS && echo $VRAMTRACE_STANDIN_ROOMS"]).output.strip()
    assert folder and not os.path.exists(folder)


def test_what_was_started_ends_when_the_time_is_up(tmp_path):
    """Processes of a server's engine, too: whoever started them was ended, and did not end them."""
    done = dry(tmp_path, ["sh", "-c", "sh -c 'sleep 99 & echo $!; wait' & wait"], "--time", "1s", timeout=60)
    assert done.output.strip() and not os.path.exists(f"/proc/{done.output.strip()}"), done.error


def begin(said):
    """A dry run that goes on, the number of its command, and its folder."""
    script = f"echo $$ $VRAMTRACE_STANDIN_ROOMS >{said}.part; mv {said}.part {said}; exec sleep 99"
    process = subprocess.Popen([PROGRAM, "dryrun", "sh", "-c", script], env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    while not said.exists():
        assert process.poll() is None
        time.sleep(0.01)
    return process, *said.read_text().split()


def test_the_next_removes_what_a_killed_one_left(tmp_path):
    """But not the folder of one that still runs."""
    lives, _, kept = begin(tmp_path / "lives")
    killed, command, left = begin(tmp_path / "killed")
    try:
        assert os.path.isdir(left)  # once it is killed, any dry run may remove it
        killed.kill()
        killed.wait()
        while os.path.exists(f"/proc/{command}"):  # it is killed with it
            time.sleep(0.01)
        dry(tmp_path, ["true"])
        assert not os.path.exists(left) and os.path.isdir(kept)
    finally:
        lives.terminate()
        lives.wait()
    assert not os.path.exists(kept)


@pytest.mark.parametrize("words,told", [
    (["--gpu", "h100", "true"],
     "--gpu: no GPU 'h100' is known; did you mean h100-80gb? --gpu help lists them, and --gpu-memory 24GiB sets any size"),
    (["--gpu", "h100-80gb:0", "true"], "--gpu: '0' is not a number of GPUs from 1 to 16"),
    (["--gpu", "h100-80gb:x", "true"], "--gpu: 'x' is not a number of GPUs from 1 to 16"),
    (["--gpu-memory", "lots", "true"], "--gpu-memory: 'lots' is not a size of at least 1 MiB, such as 24GiB"),
    (["--time", "soon", "true"], "--time: 'soon' is not a time, such as 90s, 10m or 1h"),
    (["--steps", "-1", "true"], "--steps: '-1' is not a number"),
    (["--values", "maybe", "true"], "--values takes on or off, not 'maybe'"),
    (["--fake-data=1", "true"], "--fake-data takes no value"),
    (["--batchs", "3", "true"], "unknown option '--batchs'; did you mean --batches?"),
    (["--steps"], "--steps needs a value: --steps N"),
    ([], "which command? vramtrace dryrun [OPTIONS] COMMAND..."),
])
def test_wrong_use(words, told, tmp_path):
    done = subprocess.run([PROGRAM, "dryrun", *words], capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT)
    assert (done.returncode, done.stderr.strip()) == (2, f"vramtrace dryrun: {told}")


def test_a_command_without_a_gpu(tmp_path):
    done = dry(tmp_path, ["true"])
    assert done.status == 0 and done.error.strip() == "vramtrace: no CUDA call was seen: no trace"


def test_help_and_the_list_of_gpus(tmp_path):
    told = subprocess.run([PROGRAM, "dryrun", "--help"], capture_output=True, text=True, check=True).stdout
    listed = subprocess.run([PROGRAM, "dryrun", "--gpu", "help"], capture_output=True, text=True, check=True).stdout
    assert listed in told and "  h100-80gb    NVIDIA H100 80GB HBM3, 79.2 GiB\n" in listed
    assert told == subprocess.run([PROGRAM, "help", "dryrun"], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="Linux")
def test_python_without_torch(tmp_path):
    """The program's own Python, isolated from the environment, runs as ever."""
    assert dry(tmp_path, [sys.executable, "-I", "-c", "print('ran')"]).output == "ran\n"
    assert dry(tmp_path, [sys.executable, "-c", "import numpy; print('ran')"]).output == "ran\n"
    assert HERE.is_dir()


@pytest.mark.parametrize("text,options,finds", [
    pytest.param(ENGINE, ["-Wl,--whole-archive", STATIC, "-Wl,--no-whole-archive", "-Wl,--exclude-libs,ALL"], -1, marks=pytest.mark.skipif(
        not STATIC.exists(), reason="the runtime to link with")),
    (LOOKS_UP, [f"-L{BUILD}/simulate", "-l:libcuda.so.1"], 1)])
def test_a_library_with_nvidias_runtime_inside_is_named(text, options, finds, tmp_path):
    compiled(tmp_path / "libengine.so", text, "-shared", "-fPIC", f"-I{TOOLKIT}/include", *options)
    compiled(tmp_path / "x", COUNTS, tmp_path / "libengine.so", "-ldl", "-lpthread", "-lrt", f"-Wl,-rpath,{tmp_path}",
             f"-Wl,-rpath-link,{BUILD}/simulate")
    done = dry(tmp_path, [tmp_path / "x"])
    told = [line for line in done.error.splitlines() if "runtime" in line]
    assert (done.status, done.output) == (0, f"{finds}\n"), done.error
    assert told == (["vramtrace dryrun: libengine.so has NVIDIA's CUDA runtime inside, which needs a real driver, and finds no GPU here. "
                     "Take a build that loads libcudart.so, or record it on a GPU: vramtrace run COMMAND"] if finds < 0 else []), told


def test_what_cuda_12_has_less_of(tmp_path):
    """cudaPointerAttributes has 24 bytes there, 88 in 13."""
    script = tmp_path / "x.py"
    script.write_text("import ctypes, sys\nroom = ctypes.create_string_buffer(b'U' * 96, 96)\n"
                      "print(ctypes.CDLL(sys.argv[1]).cudaPointerGetAttributes(room, ctypes.c_void_p(4096)), room.raw.count(b'U'))\n")
    for name, left in (("libcudart.so.12", 72), ("libcudart.so.13", 8)):
        assert dry(tmp_path, [sys.executable, script, name]).output == f"0 {left}\n"
