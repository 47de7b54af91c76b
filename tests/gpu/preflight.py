"""What is on this machine, and what is missing: one fact a line, none of which may stop the others."""
import datetime
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]
from helpers import BUILD, ENVIRONMENT, LIBRARY, PROGRAM, PYTHON, RUN  # noqa: E402

ASK_TORCH = "import torch; p = torch.cuda.get_device_properties(0); print(torch.__version__, '· CUDA', torch.version.cuda, '· cuDNN', " \
            "torch.backends.cudnn.version(), '·', p.name, '·', p.total_memory, 'bytes ·', torch.cuda.device_count(), 'devices')"
ASK_DRIVER = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); v = ctypes.c_int(); c.cuDriverGetVersion(ctypes.byref(v)); print(v.value)"
MODULES = ("torch", "torchvision", "triton", "transformers", "vllm", "cupy", "jax", "rmm", "onnxruntime", "tensorflow", "pytest")
TOOLS = ("nvidia-smi", "nvcc", "cc", "meson", "ninja", "unshare", "readelf", "nm", "gdb")
BUILT = ("tests/golden/driver_calls", "tests/golden/way_runtime", "tests/golden/sharing", "tests/torch/list_blocks")


def said(*command, **settings):
    """(status, the output's last line)."""
    try:
        done = subprocess.run([str(word) for word in command], env={**ENVIRONMENT, **settings}, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    lines = (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip().splitlines()
    return done.returncode, lines[-1] if lines else ""


def first(path):
    try:
        return pathlib.Path(path).read_text().splitlines()[0]
    except (OSError, IndexError):
        return "not readable"


def told_by(path, name):
    """The value of a line "name: value" of a file of the kernel."""
    lines = (line.partition(":") for line in pathlib.Path(path).read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), None)


def distribution():
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError, AttributeError):
        return "system not known"


def processor():
    return f"{told_by('/proc/cpuinfo', 'model name') or platform.machine()}, {os.cpu_count()} cores"


def module_version(name):
    """None where it is missing; not imported, since that may take a context."""
    if importlib.util.find_spec(name) is None:
        return None
    names = importlib.metadata.packages_distributions().get(name, [name])
    try:
        return importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        return "version not known"


def look():
    """(facts by name, what is missing, what the parts may need)."""
    facts, missing = {}, []

    def fact(name, status, text):
        facts[name] = text if status == 0 else f"– ({text[:160]})"
        return status == 0

    facts["date"] = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
    fact("commit", *said("git", "-C", HERE, "rev-parse", "--short", "HEAD"))
    kernel = ".".join(platform.release().split(".")[:2])
    facts["system"] = f"{distribution()}, {platform.system()} {kernel}, {' '.join(platform.libc_ver())}"
    facts["processor"] = processor()
    fact("nvidia-smi", *said("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"))
    facts["kernel module"] = first("/proc/driver/nvidia/version")
    driver = fact("CUDA of the driver", *said(*RUN, PYTHON, "-c", ASK_DRIVER))
    fact("NVML", *said(*RUN, PYTHON, "-S", HERE / "programs/nvml_read.py"))
    fact("torch", *said(*RUN, PYTHON, "-c", ASK_TORCH))
    fact("vramtrace", *said(PROGRAM, "--version"))
    # A library that cannot be loaded is only a line on stderr; nothing may be there.
    done = subprocess.run([*RUN, "env", f"LD_PRELOAD={LIBRARY}", "true"], env=ENVIRONMENT, capture_output=True, text=True)
    recorder = fact("libvramtrace.so loads", 1 if done.stderr.strip() or done.returncode else 0, done.stderr.strip() or "yes")
    found = {name: version for name in MODULES if (version := module_version(name))}
    facts["Python"] = f"{platform.python_version()} ({sys.executable})"
    facts["modules"] = ", ".join(f"{name} {version}" for name, version in found.items())
    facts["tools"] = ", ".join(name for name in TOOLS if shutil.which(name)) or "none"
    facts["surroundings"] = f"seccomp {told_by('/proc/self/status', 'Seccomp')}; /dev/shm {shared_memory()}"
    missing += [name for name in MODULES if name not in found]
    missing += [name for name in TOOLS if not shutil.which(name)]
    missing += [str(BUILD / path) for path in BUILT if not (BUILD / path).exists()]
    if not driver:
        missing.append("libcuda.so.1")
    # A torch that did not answer may do so later: its parts try.
    has = set(found) | ({"gpu"} if driver and not RUN else set())
    return facts, missing, has, driver and recorder and PROGRAM.exists()


def shared_memory():
    try:
        room = os.statvfs("/dev/shm")
        return f"{room.f_bavail * room.f_frsize >> 20} MiB free"
    except OSError:
        return "missing"


if __name__ == "__main__":
    facts, missing, _, good = look()
    for name, text in facts.items():
        print(f"{name:24} {text}")
    print(f"{'missing':24} {', '.join(missing) or 'nothing'}")
    sys.exit(0 if good else 1)
