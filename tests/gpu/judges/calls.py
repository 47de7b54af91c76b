"""The driver's and the runtime's functions: programs of tests/golden that keep books of their own, event by event."""
import json
import re
import shutil
import sys

import helpers
from figures import NotRun
from harness import FLAGS, PROGRAMS as BUILT, event_of_trace, truth
from helpers import ROOT
from judges.shared import PROGRAMS, RUN, load, needed, report, run, runtime_folder, vramtrace

MIB = 1 << 20
RUNTIME = ROOT / "tests/golden/programs"


class Recorded:
    """A run of a program, its events, and the values that it checks."""

    def __init__(self, done, trace):
        self.output = done.stdout
        self.events = [event_of_trace(event) for event in helpers.events(trace, stacks=False)] if trace.exists() else []
        self.checks = {}
        for line in done.stdout.splitlines():
            words = line.split()
            if words[0] == "check":
                self.checks.setdefault(words[1], []).append(int(words[2]))

    def of(self, *kinds):
        return [event for event in self.events if event.kind in kinds]


def exactly_once(figures, ran):
    """Each allocation and free that the program tells of, and no other."""
    allocs, frees = truth(ran.output)
    figures.equal("allocations: address, bytes, flags", "the program", sorted(allocs),
                  sorted((e.address, e.bytes, e.flags) for e in ran.of("alloc")))
    figures.equal("frees", "the program", sorted(frees), sorted(e.address for e in ran.of("free")))
    figures.equal("frees that failed, allocations that failed", "the program", 0, len(ran.of("free_failed", "alloc_failed")))


def pool_bytes(figures, ran):
    """What pools hold, as the driver's events tell it, before a trim and after all."""
    reserved, before_trim = {}, None
    for event in ran.of("pool"):
        if event.function == "cuMemPoolTrimTo" and before_trim is None:
            before_trim = sum(reserved.values())
        reserved[event.address] = event.total
    for name, ours in (("reserved", before_trim), ("reserved_after_trim", sum(reserved.values()))):
        figures.equal(f"bytes of the pools: {name}", "cuMemGetInfo", ran.checks[name][0], ours)


def graph_bytes(figures, ran):
    """What a device holds for graphs' own nodes, after each part (the program reserves an address range there)."""
    reserved, states = 0, []
    for event in ran.events:
        if event.kind == "pool" and event.has("captured") and event.device == 0:
            reserved = event.total
        elif event.kind == "reserve":
            states.append(reserved)
    figures.equal("bytes of graphs' nodes after each part", "cuDeviceGetGraphMemAttribute", ran.checks["graphs_0"], states)


def one_launch(figures, ran):
    totals = [event.total for event in ran.of("pool") if event.has("captured")]
    figures.equal("bytes of a graph's node from its first launch on", "cuMemGetInfo", ran.checks["launch"][0], max(totals, default=0))
    figures.told("calls about pools of graphs", [event.function for event in ran.of("pool")])


def many_graphs(figures, ran):
    totals = [event.total for event in ran.of("pool") if event.has("captured")]
    figures.equal("bytes of 6,000 graphs", "cuMemGetInfo", ran.checks["graphs"][0], totals[-1] if totals else 0)


def virtual_memory(figures, ran):
    handle, address = ran.checks["create"][0], ran.checks["reserve"][0]
    figures.equal("reserve, create, map, unmap: address, bytes", "the program",
                  [["reserve", address, 8 * MIB], ["handle_create", handle, 4 * MIB], ["map", address, 4 * MIB],
                   ["unmap", address, 4 * MIB], ["unreserve", address, 8 * MIB]],
                  [[e.kind, e.address, e.bytes] for e in ran.of("reserve", "handle_create", "map", "unmap", "unreserve")
                   if not e.has("host")])


def failures(figures, ran):
    expected = [[function, size, ran.checks[name][0]] for name, function, size in (
        ("alloc", "cuMemAlloc_v2", 1 << 50), ("managed", "cuMemAllocManaged", 1 << 50), ("async", "cuMemAllocAsync", 1 << 50),
        ("create", "cuMemCreate", 1 << 50), ("null", "cuMemAlloc_v2", 1)) if name in ran.checks]
    figures.equal("refused: function, bytes, result", "the program", expected,
                  [[e.function, e.bytes, e.detail] for e in ran.of("alloc_failed")])
    figures.equal("frees that were taken back", "the program", 2, len(ran.of("free_failed")))


def contexts(figures, ran):
    figures.equal("contexts that were made", "the program",
                  [ran.checks["primary"][0], *ran.checks["own"]],
                  [e.address for e in ran.of("context_create")][:1 + len(ran.checks["own"])])


def signed(number):
    return number if number < 1 << 63 else number - (1 << 64)


def streams(figures, ran):
    """Streams, which take memory without saying so, and whether it comes back."""
    for name, beginning, sign in (("made", "cuStreamCreate", 1), ("destroyed", "cuStreamDestroy", -1)):
        taken = sum(signed(event.bytes) for event in ran.of("delta") if event.function.startswith(beginning))
        figures.equal(f"48 streams {name}: bytes", "cuMemGetInfo around it", ran.checks[name][0], sign * taken)


SILENT = {"module": ("cuModuleLoadData",), "library": ("cuLibraryLoadData", "cuLibraryGetModule"), "limit": ("cuCtxSetLimit",)}


def silent(figures, ran):
    """Calls that take memory without saying so: by function, what the card had more in use after them."""
    seen = {}
    for event in ran.of("delta"):
        seen[event.function] = seen.get(event.function, 0) + signed(event.bytes)
    for name, values in ran.checks.items():
        if name not in ("nothing", "all"):
            figures.equal(f"{name}: bytes", "cuMemGetInfo around it", sum(values), sum(seen.get(f, 0) for f in SILENT.get(name, (name,))))


FAMILIES = {
    "linear": (exactly_once,), "first_abi": (exactly_once,), "arrays": (exactly_once,), "pools": (exactly_once, pool_bytes),
    "capture": (exactly_once, one_launch), "graph_memory": (graph_bytes,), "many_graphs": (many_graphs,),
    "virtual_memory": (virtual_memory,), "sparse": (), "failures": (failures,), "foreign": (), "contexts": (contexts,),
    "streams": (streams,), "loads": (silent,), "kernels": (silent,), "errno": (), "dlerror": (), "no_context": ()}


def shape(output):
    """What a program prints, without addresses and without what other processes change."""
    return re.sub(r"0x[0-9a-f]+|(?<=check )(\w+) \d+", r"\1", output)


def families(figures, folder):
    """Every family: with the recorder each call returns what it returns without."""
    settings = {"VRAMTRACE_STANDIN_KERNEL": "1MiB"} if RUN else {}
    for name, checks in FAMILIES.items():
        bare = run([BUILT / "driver_calls", name], folder, name=None, **settings)
        done = run([BUILT / "driver_calls", name], folder, name=f"{name}.vrt", **settings)
        figures.subject = name
        figures.equal("exit status, output without addresses", "the same program without the recorder",
                      [bare.returncode, shape(bare.stdout)], [done.returncode, shape(done.stdout)])
        if bare.returncode:
            figures.told("this driver refuses", (bare.stdout + bare.stderr).strip()[-200:])
            continue
        ran = Recorded(done, folder / f"{name}.vrt")
        figures.told("events", len(ran.events))
        for check in checks:
            check(figures, ran)


def check_runtime(figures, program, folder, labelled=True, **settings):
    """LABELLED: the runtime's functions are seen; those of a static runtime are not."""
    done = needed(run([program], folder, **settings))
    ran = Recorded(done, folder / "run.vrt")
    exactly_once(figures, ran)
    said = [line.split()[-1] if labelled else "" for line in done.stdout.splitlines() if line.startswith("alloc")]
    figures.equal("the runtime's function of each allocation", "the program", sorted(said), sorted(e.label for e in ran.of("alloc")))
    pairs = sorted({(event.label, event.function) for event in ran.of("alloc", "free")})
    figures.told("which driver function each ends in", ", ".join(f"{label} → {function}" for label, function in pairs))


def runtime(figures, folder):
    """The shared runtime of PyTorch's packages."""
    place = None if RUN else runtime_folder()
    if not RUN and place is None:
        raise NotRun("libcudart.so.13 was not found beside PyTorch")
    check_runtime(figures, BUILT / "way_runtime", folder, **({"LD_LIBRARY_PATH": place} if place else {}))


def static_runtime(figures, folder):
    """NVIDIA's static runtime, as most CUDA programs have it."""
    compiler = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if compiler is None:
        raise NotRun("nvcc was not found")
    needed(run([compiler, "-DPLUGIN", "-o", folder / "program", RUNTIME / "way_static.cu", RUNTIME / "way_runtime.c"], folder,
               name=None))
    check_runtime(figures, folder / "program", folder, labelled=False)


def shared_memory(figures, folder):
    """Two processes that share memory by an IPC handle and by a descriptor."""
    done = needed(run([BUILT / "sharing"], folder, name="%p.vrt"))
    true = dict(line.split() for line in done.stdout.splitlines())
    figures.told("memory in the place of freed memory has the same IPC handle", "", "the program", true["same"])
    made, used = (Recorded(done, folder / f"{true[who]}.vrt") for who in ("owner", "user"))
    exports = {}  # the first of each function: then the program asks for another, in the place of freed memory
    for event in made.of("export"):
        exports.setdefault(event.function, event.detail)
    imports = {event.function: event.total for event in used.events if event.flags & FLAGS["foreign"]}
    figures.equal("identity of memory by IPC handle", "the other process", exports.get("cuIpcGetMemHandle"),
                  imports.get("cuIpcOpenMemHandle_v2"))
    figures.told("identity of memory by descriptor (0: not known)", [exports.get("cuMemExportToShareableHandle"),
                                                                     imports.get("cuMemImportFromShareableHandle")])
    job = json.loads(vramtrace("report", "--json", folder / f"{true['owner']}.vrt", folder / f"{true['user']}.vrt").stdout)
    peaks = {process["pid"]: process["devices"][0]["peak"]["used_bytes"] for process in job["processes"]}
    figures.equal("bytes of who made it, of who opened it", "the program", [28 * MIB, 0],
                  [peaks[int(true[who])] for who in ("owner", "user")])
    figures.told("shared, in the report of both", [[row["owner"], row["users"], row["bytes"]] for row in job["shared"]])


def first_allocation(figures, folder):
    """cuMemGetInfo before the first allocation is the context; what asking costs."""
    program = [sys.executable, PROGRAMS / "first.py"]
    needed(run([*program, folder / "bare.json"], folder, name=None))
    needed(run([*program, folder / "truth.json"], folder))
    bare, told = load(folder / "bare.json"), load(folder / "truth.json")
    table = report(folder / "run.vrt")["devices"][0]["last_gpu"]
    rows = {row["kind"]: row["bytes"] for row in table["rows"] if row["kind"] != "process"}
    figures.within("context (with other processes, where not told apart)", "cuMemGetInfo before the first allocation",
                   told["used_before"], sum(rows.get(kind, 0) for kind in ("context", "context_and_processes", "unlisted"))
                   + sum(row["bytes"] for row in table["rows"] if row["kind"] == "process"), 0.01)
    figures.below("unexplained, share", abs(rows["unexplained"]) / table["device_bytes"], 0.01)
    for name, value in told["costs"].items():
        figures.told(f"{name}, µs", value, "without the recorder", bare["costs"][name])
    if told["nvml"] and told["nvml"]["processes"] is not None:
        figures.told("NVML: pid and bytes of processes", told["nvml"]["processes"], "", told["pid"])


def local_memory(figures, folder):
    """A kernel whose threads need much local memory: the driver takes it at the launch."""
    needed(run([sys.executable, PROGRAMS / "local_memory.py", folder / "truth.json"], folder))
    told = load(folder / "truth.json")
    ran = Recorded(needed(run(["true"], folder, name=None)), folder / "run.vrt")
    deltas = [[event.function, event.bytes] for event in ran.of("delta")]
    figures.equal("bytes that the launches took", "cuMemGetInfo around them", told["taken"],
                  sum(size for function, size in deltas if "Launch" in function))
    figures.told("calls that took memory silently", deltas)
    table = report(folder / "run.vrt")["devices"][0]["last_gpu"]
    unexplained = sum(row["bytes"] for row in table["rows"] if row["kind"] == "unexplained")
    figures.below("unexplained, share", abs(unexplained) / table["device_bytes"], 0.01)
