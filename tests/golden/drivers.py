#!/usr/bin/env python3
"""NVIDIA's own libraries, looked up without a GPU, with the recorder and without: is everything the same, but that hooked functions are
ours?

    drivers.py [--driver VERSION]... [--wheels FOLDER] > docs/results/drivers.md

The drivers are those of tests/setup.sh (setup_driver). cuBLAS and others are PyPI's wheels (1.9 GB), downloaded one at a time and
deleted, but for those that `pip install --target FOLDER` has installed. Needs VRAMTRACE_BUILD. Exits with 1 if anything differs.
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from harness import BUILD, LIBRARIES, PROGRAMS  # noqa: E402
from helpers import ROOT, made_here  # noqa: E402

VERSIONS = ("390", "418", "450", "460", "470", "525", "535", "550", "555")
ROWS = re.findall(r'^VT_(\w+)\((cu(?!da)\w+)(?:, "(.*)")?\)', (ROOT / "preload/hooks/hooks.def").read_text(), re.M)
HOOKED = {name for kind, name, _ in ROWS if kind == "WRAPPED"}
UNHOOKED = {name: why for kind, name, why in ROWS if kind == "UNHOOKED"}
KNOWN = {name for _, name, _ in ROWS} | set((HERE / "driver_symbols.txt").read_text().split())
PARTS = {"libcuda.so.1": ("lookups", "entries", "calls", "reached", "texts"), "libnvidia-ml.so.1": ("lookups", "calls", "copied", "texts")}
# Exports that no row of hooks.def names, by what they do: the first that matches. What matches none may be a memory function.
OTHERS = (
    (r"cudbg\w+", "the debugger's"),
    (r"cuGetExportTable", "gives private functions that no header declares"),
    (r"cuMem(cpy|set)\w*", "copy and fill"),
    (r"cu(EGL|GL|VDPAU)\w+|cuGraphicsResourceSetMapFlags\w*", "set the graphics interface up, or give back what it shares"),
    (r"cu\w*(Get|Query|Enumerate|IsLoaded|CanAccess|ComputeCapability|Occupancy|ElapsedTime|TotalMem)\w*", "only read"),
    (r"cuLaunch(Grid|GridAsync|CooperativeKernelMultiDevice)?", "launch functions that cuModuleGetFunction, which is hooked, has given"),
    (r"cuGraph(Create|Clone|Add(?!Node|Mem(Alloc|Free))|Exec(?!Update|Destroy)|(?!Add|Exec|Instantiate|Launch|Upload|ics))\w*",
     "describe a graph: its memory comes with instantiation, upload and launch, which are hooked"),
    (r"cu(Tex|Surf)(Ref|Object)\w+|cuTensorMap\w+|cuParam\w+|cuFuncSet\w+|cuKernelSet\w+", "describe arguments and settings of kernels"),
    (r"cuLink(AddFile\w*|Complete)", "link code, in host memory"),
    (r"cuEvent(Create|Destroy)\w*|cu(Event|Stream|Ctx|GreenCtx)(Record|Synchronize|Wait|Write|BatchMemOp|AddCallback|Copy|Update)\w*|"
     r"cuLaunchHostFunc\w*|cu\w*ExternalSemaphores?\w*|cuIpcOpenEventHandle|cuFlushGPUDirectRDMAWrites", "events, and the order of work"),
    (r"cu(Ctx|Stream|DevicePrimaryCtx|Pointer|Coredump)(Push|Pop|Set|Reset(?!_v|$))\w+", "choose and set"),
    (r"cu(UserObject|Profiler|DeviceRegister|DeviceUnregister|DevSmResource|DevResource)\w+|cuInit", "objects of the host, settings"),
)
# Wheel, its library's path in it, and a function that makes it look up the driver's. Others are loaded with them.
LIBRARIES_OF_WHEELS = (
    ("nvidia-cublas-cu12==12.9.3.13", "cublas/lib/libcublas.so.12", "cublasCreate_v2"),
    ("nvidia-cublas-cu12==12.9.3.13", "cublas/lib/libcublasLt.so.12", "cublasLtCreate"),
    ("nvidia-cudnn-cu12==9.28.0.42", "cudnn/lib/libcudnn.so.9", "cudnnCreate"),
    ("nvidia-cudnn-cu12==9.28.0.42", "cudnn/lib/libcudnn_ops.so.9", "cudnnOpsVersionCheck"),
    ("nvidia-cudnn-cu12==9.28.0.42", "cudnn/lib/libcudnn_cnn.so.9", "cudnnCnnVersionCheck"),
    ("nvidia-cudnn-cu12==9.28.0.42", "cudnn/lib/libcudnn_adv.so.9", "cudnnAdvVersionCheck"),
    ("nvidia-cudnn-cu12==9.28.0.42", "cudnn/lib/libcudnn_engines_runtime_compiled.so.9", "cudnnGetVersion"),
    ("nvidia-nccl-cu12==2.32.3", "nccl/lib/libnccl.so.2", "ncclCommInitRank"),
    ("nvidia-cufft-cu12==11.4.1.4", "cufft/lib/libcufft.so.11", "cufftCreate"),
)
TEXT = """Each library was asked the same questions bare and with the recorder preloaded. *lookups*: answers of `dlsym` (by handle,
RTLD_DEFAULT and RTLD_NEXT; before and after it is loaded, locally and globally), of `dlvsym`, which finds nothing because the libraries
have no symbol versions, and of `cuGetProcAddress` and `cuGetProcAddress_v2` for every name, five values of their flags and 42 CUDA
versions from 2.0 to 13.2, 0 and 99.99 (one answer for each version from which it is another one). *ours*: those that are the recorder's
wrappers. *calls*: results of every function, with zeros and with pointers, before and after `cuInit`. *reached*: wrappers, by three
lookups each, that came once to the driver's function of their name, with all its arguments, and handed its result on. *texts*: codes
given to `cuGetErrorName` and `cuGetErrorString`. *NVML calls*: of the library, and of the recorder's private copy of it.
"""
LIBRARIES_TEXT = """## Libraries on top of CUDA

Each was loaded over the newest of these drivers, and a function called that fails without a GPU: before that, the CUDA runtime inside
the library looks up the driver's functions. *imports*: functions of libcuda and libcudart that the library is linked with. *kept*:
functions of libcuda that its data points to afterwards, the same bare and preloaded; *hooked*: those of them that hooks.def wraps.
"""


def fetch(version):
    """The driver's folder in the cache, or None, with the reason."""
    if pathlib.Path("/dev/nvidia0").exists():
        return None, "here is a GPU, which calls would reach"
    done = subprocess.run(["bash", "-c", '. "$0/tests/setup.sh"; setup_driver "$1" && echo "$setup_driver_folder"', ROOT, version],
                          text=True, capture_output=True, check=False)
    if done.returncode != 0:
        return None, done.stderr.strip().splitlines()[-1]
    return pathlib.Path(done.stdout.strip()), ""


def exports(library):
    """Functions and their offsets; names carry a version where they have one."""
    table = subprocess.check_output(["nm", "-D", "--defined-only", library], text=True)
    return {name: offset for offset, kind, name in map(str.split, table.splitlines()) if kind in "TW"}


@functools.cache
def argument_counts():
    """Of the driver's functions, from cuda.h."""
    options = json.loads((BUILD / "meson-info" / "intro-buildoptions.json").read_text())
    include = next(option["value"] for option in options if option["name"] == "driver_include") or "/usr/local/cuda/include"
    header = subprocess.check_output(["cc", "-E", "-P", "-D__CUDA_API_VERSION_INTERNAL", "-include", "cuda.h", f"-I{include}",
                                      f"-I{ROOT}/preload", "-include", "hooks/older_headers.h", "-x", "c", "/dev/null"], text=True)
    return {name: 0 if inside.strip() in ("", "void") else inside.count(",") + 1
            for name, inside in re.findall(r"\b(cu[A-Z]\w*)\s*\(([^()]*)\)\s*;", header)}


def run(command, folder, preload):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LD_LIBRARY_PATH": str(folder)}
    if preload:
        env["LD_PRELOAD"] = str(LIBRARIES["trace"])
    done = subprocess.run([str(word) for word in command], env=env, capture_output=True, text=True, errors="replace", timeout=600,
                          check=False)
    return done.stdout.splitlines() + [f"ended with {done.returncode}, {done.stderr}"]


def by_our_wrapper(line):
    """What is wanted of a line of the bare run: its hooked functions are ours."""
    return re.sub(r"libcuda\.so\.1 (\w+)", lambda match: match[0] if match[1] not in HOOKED else f"libvramtrace.so {match[1]}", line)


def arguments_wanted(name):
    """As bits. On x86-64 an IPC handle, by value, is on the stack, while others are in six registers first."""
    if name.startswith("cuIpcOpenMemHandle"):
        return 0b101 if platform.machine() == "aarch64" else 0b11 | 0xff << 6
    return (1 << argument_counts()[name]) - 1


def is_as_wanted(part, before, after):
    if part == "reached" and "libvramtrace.so" in after:
        name, times, arguments, result, ours = re.fullmatch(
            r"reached (\w+): (\d+) times, arguments (\w+), result (\d+), by libvramtrace.so (\w+)", after).groups()
        return (times, result, ours) == ("1", "999", name) and int(arguments, 16) & arguments_wanted(name) == arguments_wanted(name)
    if "nvmlErrorString: " in before:  # an address
        return True
    return after == by_our_wrapper(before)


def examine(folder):
    """Counts of what was compared, and lines that differ."""
    found, wrong = collections.Counter(), []
    for library, parts in PARTS.items():
        table = {name.partition("@")[0]: offset for name, offset in exports(folder / library).items() if not name.startswith("cudbg")}
        names = set(table) | (KNOWN if library == "libcuda.so.1" else set())
        names |= {re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", name) for name in names}
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("".join(f"{name} {table.get(name, 0)}\n" for name in sorted(names)))
            file.flush()
            answers = {}
            for part in parts:
                command = [PROGRAMS / "driver_answers", library, file.name, part]
                answers[part] = before = run(command, folder, False)
                after = run(command, folder, True)
                if len(before) != len(after) or before[-1] != "ended with 0, ":
                    wrong.append(f"{library}, {part}: {len(before)} lines, then {len(after)}; {before[-1]}; {after[-1]}")
                wrong += [f"{library}, {part}: {old} → {new}" for old, new in zip(before, after) if not is_as_wanted(part, old, new)]
                found[library, part] = len(before) - 1
                found[library, part, "ours"] = sum("libvramtrace.so" in line for line in after)
        if "copied" in parts:
            wrong += [f"copy of {library}: {old} → {new}" for old, new in zip(answers["calls"], answers["copied"]) if old != new and
                      "nvmlErrorString" not in old]
        found[library, "exports"], found[library, "versions"] = len(table), sum("@" in name for name in exports(folder / library))
        found[library, "initialized"] = next(int(line.split()[1]) for line in answers["calls"] if line.startswith("initialized: "))
    return found, wrong


def other_exports(folder):
    """Exports of libcuda that hooks.def does not name: by what they do; None = not known."""
    groups = collections.defaultdict(list)
    for name in exports(folder / "libcuda.so.1"):
        if name not in {row for _, row, _ in ROWS}:
            groups[next((what for pattern, what in OTHERS if re.fullmatch(pattern, name)), None)].append(name)
    return groups


def pointers(library, function, folder, preload):
    """How the call ended, how the program did, and what is kept: the holder's name, a function of libcuda, and whose it is."""
    path = ":".join(map(str, (folder, *library.parents[2].glob("*/lib"))))
    lines = run([PROGRAMS / "cudart_pointers", library, function], path, preload)
    kept = [line.split() for line in lines[1:-1]]
    names = KNOWN | set(exports(folder / "libcuda.so.1"))
    return lines[0], lines[-1], {(words[2], words[1], words[0]) for words in kept if len(words) == 3 and words[1] in names}


def examine_library(library, function, folder):
    """Rows of (library, imports, kept, of these hooked, ours), and lines that differ."""
    (result, ended, before), (result_with, ended_with, after) = (pointers(library, function, folder, preload) for preload in (False, True))
    wrong = [] if (result, ended) == (result_with, ended_with) else [f"{library.name}: {result}, {ended} → {result_with}, {ended_with}"]
    wrong += [f"{library.name}: {holder} keeps {name} of {owner}" for holder, name, owner in after
              if (owner == "recorder") != (name in HOOKED)]
    if {pair[:2] for pair in before} != {pair[:2] for pair in after}:
        wrong.append(f"{library.name}: other functions are kept")
    rows = []
    for holder in sorted({holder for holder, _, _ in after}):
        file = next(library.parents[2].glob(f"*/lib/{holder}"))
        table = subprocess.check_output(["nm", "-D", "--undefined-only", file], text=True)
        imports = sorted(set(re.findall(r"\b(cu(?:da)?[A-Z]\w+)", table)))
        names = {name for where, name, _ in after if where == holder}
        rows.append((holder, function, imports, len(names), len(names & HOOKED),
                     len({name for where, name, owner in after if where == holder and owner == "recorder"})))
    return rows, wrong


def examine_wheels(driver, kept):
    rows, wrong = [], []
    for wheel in dict.fromkeys(wheel for wheel, _, _ in LIBRARIES_OF_WHEELS):
        parts = [row[1:] for row in LIBRARIES_OF_WHEELS if row[0] == wheel]
        with tempfile.TemporaryDirectory() as temporary:
            folder = kept if kept and (kept / "nvidia" / parts[0][0]).exists() else pathlib.Path(temporary)
            if folder != kept:
                subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, wheel], check=True,
                               stdout=sys.stderr)
            for path, function in parts:
                more, differ = examine_library(folder / "nvidia" / path, function, driver)
                rows += [(wheel, *row) for row in more]
                wrong += differ
    return rows, wrong


def driver_row(folder, found):
    cuda, nvml = "libcuda.so.1", "libnvidia-ml.so.1"
    table = exports(folder / cuda)
    looked = sum(found[cuda, part] for part in ("lookups", "entries"))
    ours = sum(found[cuda, part, "ours"] for part in ("lookups", "entries"))
    return [(folder / "package").read_text().strip(), found[cuda, "initialized"], found[cuda, "exports"], len(set(table) & HOOKED),
            len(set(table) & set(UNHOOKED)), f"{looked:,}", f"{ours:,}", f"{found[cuda, 'calls']:,}", found[cuda, "reached", "ours"],
            f"{found[cuda, 'texts']:,}", found[nvml, "exports"], f"{found[nvml, 'calls'] + found[nvml, 'copied']:,}"]


def table(heads, rows):
    return "\n".join(["| " + " | ".join(map(str, row)) + " |" for row in (heads, ["---"] * len(heads), *rows)]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", action="append", help="one of " + ", ".join(VERSIONS))
    parser.add_argument("--wheels", type=pathlib.Path)
    options = parser.parse_args()
    wrong, rows, unhooked, others, without, folder = [], [], {}, collections.defaultdict(set), [], None
    for version in options.driver or VERSIONS:
        fetched, why = fetch(version)
        if fetched is None:
            without.append(why)
            continue
        folder = fetched
        found, differ = examine(folder)
        wrong += [f"{version}: {line}" for line in differ]
        rows.append(driver_row(folder, found))
        unhooked |= {name: UNHOOKED[name] for name in exports(folder / "libcuda.so.1") if name in UNHOOKED}
        for what, names in other_exports(folder).items():
            others[what] |= set(names)
            wrong += [f"{version}: {name} is not known" for name in names if what is None]
    if folder is None:
        sys.exit("\n".join(without))
    library_rows, differ = examine_wheels(folder, options.wheels)
    wrong += differ
    by_reason = collections.defaultdict(list)
    for name, why in sorted(unhooked.items()):
        by_reason[why].append(f"`{name}`")
    print(made_here("NVIDIA's own libraries, without a GPU", "tests/golden/drivers.py > docs/results/drivers.md"))
    print(TEXT)
    for line in without:
        print(f"Not compared: {line}.\n")
    print(table(["package", "`cuInit`", "exports", "hooked", "unhooked", "lookups", "ours", "calls", "reached", "texts", "NVML exports",
                 "NVML calls"], rows))
    print(f"**{len(wrong)} answers differ** in another way than that a hooked function is ours.\n" +
          "".join(f"\n- {line}" for line in wrong[:50]))
    print("## Memory functions that are not hooked\n")
    print(table(["why", "exports"], [(why, ", ".join(names)) for why, names in by_reason.items()]))
    print("## Exports that have nothing to do with memory\n")
    print(table(["what they do", "how many", "such as"], [(what, len(names), ", ".join(f"`{name}`" for name in sorted(names)[:3]))
                                                         for what, names in others.items() if what]))
    print(LIBRARIES_TEXT)
    print(table(["wheel", "library", "called", "imports", "kept", "hooked", "ours"],
                [(wheel, f"`{holder}`", f"`{function}`", ", ".join(f"`{name}`" for name in imports) or "–", kept, hooked, ours)
                 for wheel, holder, function, imports, kept, hooked, ours in library_rows]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
