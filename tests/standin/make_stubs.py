#!/usr/bin/env python3
"""Makes a folder of libraries under which the real PyTorch wheel runs without a GPU, or another framework's.

    make_stubs.py TORCH_FOLDER STANDIN_BUILD_FOLDER OUTPUT_FOLDER
    make_stubs.py --cuda 12|13 FOLDER STANDIN_BUILD_FOLDER OUTPUT_FOLDER

Prints a folder in OUTPUT_FOLDER that has one stub library per NVIDIA library that the wheel needs, with the symbols and
versions that the wheel asks for, and links to our driver and runtime. With --cuda also the libraries of that release which
the framework's libraries open by themselves, with each function whose name they hold. Nearly every function returns 0; the few that must
do more are in maths.c and nccl.c. Each wheel has a folder of its own, and it is there as a whole or not at all: several processes may
ask at once. Nothing is made if it was made before from the same files.
"""
import concurrent.futures
import hashlib
import mmap
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
OURS = {"libcuda.so.1": ".", "libcudart.so.13": ".", "libcudart.so.12": "runtime12",
        "libnvidia-ml.so.1": "."}  # under the build folder
NVIDIA = re.compile(r"^lib(cu|nv|nccl)\w*\.so\.\d+$")
# Symbols without a version are told apart by how they begin; the longest that fits counts.
LIBRARY_BY_PREFIX = {
    "nccl": "libnccl",
    "cuFile": "libcufile",
    "cusparseLt": "libcusparseLt",
    "curand": "libcurand",
    "nvshmem": "libnvshmem_host",
}
# What frameworks open by themselves: the beginning of its functions' names, and its library of each release of CUDA.
OPENED = {
    "nvml": {12: "libnvidia-ml.so.1", 13: "libnvidia-ml.so.1"},
    "cublas": {12: "libcublas.so.12", 13: "libcublas.so.13"},
    "cublasLt": {12: "libcublasLt.so.12", 13: "libcublasLt.so.13"},
    "cudnn": {12: "libcudnn.so.9", 13: "libcudnn.so.9"},
    "cufft": {12: "libcufft.so.11", 13: "libcufft.so.12"},
    "cusolver": {12: "libcusolver.so.11", 13: "libcusolver.so.12"},
    "cusparse": {12: "libcusparse.so.12", 13: "libcusparse.so.12"},
    "nccl": {12: "libnccl.so.2", 13: "libnccl.so.2"},
    "cupti": {12: "libcupti.so.12", 13: "libcupti.so.13"},
}
RETURNS_TEXT = re.compile(r"(Get\w*(ErrorString|LastError|StatusString|StatusName|ErrorName))$")


def run(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"make_stubs.py: {' '.join(map(str, command))}\n{result.stderr}")
    return result.stdout


def wheel_libraries(folder, cuda):
    if cuda:
        return sorted(path for path in folder.rglob("*.so*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF")
    torch_folder = folder
    libraries = sorted((torch_folder / "lib").glob("*.so*"))
    if not any(library.name == "libtorch_cuda.so" for library in libraries):
        sys.exit(f"make_stubs.py: no libtorch_cuda.so under {torch_folder}: not a CUDA build of PyTorch?")
    return libraries


def fingerprint(libraries, ours):
    digest = hashlib.sha256(str(ours).encode())
    for path in (Path(__file__), HERE / "maths.c", HERE / "nccl.c"):
        digest.update(path.read_bytes())
    for path in libraries:
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def needed_sonames(libraries):
    names = set()
    for library in libraries:
        names |= set(re.findall(r"^\s+NEEDED\s+(\S+)", run("objdump", "-p", library), re.M))
    return {name for name in names if NVIDIA.match(name)}


def undefined_symbols(libraries):
    """{(symbol, version or "")} of all of them."""
    found = set()
    for library in libraries:
        for line in run("nm", "-D", "--undefined-only", library).splitlines():
            symbol, _, version = line.split()[-1].partition("@")
            found.add((symbol, version.lstrip("@")))
    return found


def looked_up(libraries, cuda):
    """{(symbol, library)}: names of functions that lie in the libraries as texts."""
    found = set()
    pattern = re.compile(rb"\0((" + "|".join(sorted(OPENED, key=len, reverse=True)).encode() + rb")[A-Z]\w*)(?=\0)")
    for library in libraries:
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found |= {(name.decode(), OPENED[prefix.decode()][cuda]) for name, prefix in pattern.findall(data)}
    return found


def soname_of(symbol, version, sonames):
    if version in sonames:
        return version
    if version and version != "NVSHMEM":
        return None
    for prefix in sorted(LIBRARY_BY_PREFIX, key=len, reverse=True):
        if symbol.startswith(prefix):
            stem = LIBRARY_BY_PREFIX[prefix]
            return next((name for name in sonames if name.split(".")[0] == stem), None)
    return None


def write_source(path, symbols):
    with open(path, "w") as out:
        out.write('#define STUB __attribute__((weak, visibility("default")))\n')
        for symbol in sorted(symbols):
            if RETURNS_TEXT.search(symbol):
                out.write(f'STUB const char *{symbol}(void) {{ return "stand-in library"; }}\n')
            else:
                out.write(f"STUB long {symbol}(void) {{ return 0; }}\n")


def make_library(output, soname, symbols):
    """symbols: {name: version}. One version node per version that the wheel asks for."""
    source, script = output / f"{soname}.c", output / f"{soname}.map"
    write_source(source, symbols)
    nodes = defaultdict(list)
    for symbol, version in symbols.items():
        nodes[version or soname.replace("-", "_")].append(symbol)
    with open(script, "w") as out:
        for node, names in sorted(nodes.items()):
            out.write(f"{node} {{ global: {' '.join(name + ';' for name in sorted(names))} }};\n")
        if not nodes:
            out.write(f"{soname} {{ local: *; }};\n")
    command = [*os.environ.get("CC", "gcc").split(), "-shared", "-fPIC", "-O1", "-w", "-fvisibility=hidden"]
    command += [f"-DSTANDIN_{soname.split('.')[0]}"]
    command += [f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}"]
    ours = "nccl.c" if soname.startswith("libnccl") else "maths.c"
    run(*command, "-o", str(output / soname), str(source), str(HERE / ours))
    source.unlink()
    script.unlink()


def main():
    arguments, cuda = sys.argv[1:], 0
    if arguments[:1] == ["--cuda"] and arguments[1:2] in (["12"], ["13"]):
        cuda, arguments = int(arguments[1]), arguments[2:]
    if len(arguments) != 3:
        sys.exit(__doc__)
    wheel, build_folder, output = map(Path, arguments)
    libraries = wheel_libraries(wheel, cuda)
    ours = {name: path for name, place in OURS.items() if (path := (build_folder / place / name).resolve()).exists()}
    made = output / fingerprint(libraries, ours)[:16]
    print(made)
    if made.exists():
        return
    output.mkdir(parents=True, exist_ok=True)
    needed = needed_sonames(libraries)
    missing = needed & OURS.keys() - ours.keys()
    if missing:
        sys.exit(f"make_stubs.py: {' and '.join(sorted(missing))} not found under {build_folder}: build the stand-in first (ninja)")
    sonames = needed - OURS.keys() | {library[cuda] for library in OPENED.values() if cuda}
    symbols = {soname: {} for soname in sonames}
    for symbol, version in undefined_symbols(libraries):
        soname = soname_of(symbol, version, sonames)
        if soname:
            symbols[soname][symbol] = version
    for symbol, soname in looked_up(libraries, cuda) if cuda else ():
        symbols[soname].setdefault(symbol, "")
    with tempfile.TemporaryDirectory(dir=output) as unfinished:
        folder = Path(unfinished) / "stubs"
        folder.mkdir()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda soname: make_library(folder, soname, symbols[soname]), sorted(set(sonames) - set(OURS))))
        for name, path in ours.items():
            (folder / name).symlink_to(path)
        try:
            folder.rename(made)
        except OSError:  # another process was sooner
            if not made.exists():
                raise


main()
