"""What each family of driver functions is recorded as, against what the stand-in driver says is true."""
import json
import subprocess

import pytest

from harness import ANALYZER, check_exactly_once, run

MIB = 1 << 20
DELTA_MODULUS = 1 << 64


def call(tmp_path, recorder, family, **extra):
    done = run(tmp_path, ["driver_calls", family], recorder, VRAMTRACE_STANDIN_MODULE="3MiB", **extra)
    assert done.returncode == 0, done.output + done.error
    checks = {}
    for line in done.output.splitlines():
        words = line.split()
        if words[0] == "check":
            checks.setdefault(words[1], []).append(int(words[2]))
    return done, checks


def one(events):
    assert len(events) == 1, events
    return events[0]


def graph_pools(done):
    return [event for event in done.of("pool") if event.has("captured")]


def signed(delta):
    return delta - DELTA_MODULUS if delta >= DELTA_MODULUS // 2 else delta


@pytest.mark.parametrize("family", ["linear", "first_abi", "arrays"])
def test_exactly_once(tmp_path, recorder, family):
    check_exactly_once(call(tmp_path, recorder, family)[0])


def test_device_and_memory_info(tmp_path, recorder):
    done, _ = call(tmp_path, recorder, "linear", VRAMTRACE_STANDIN_MEMORY="16GiB",
                   VRAMTRACE_STANDIN_CONTEXT="300MiB")
    assert done.devices == [(0, 16 << 30, "Simulated GPU")]
    kinds = [event.kind for event in done.events]
    assert kinds[:3] == ["context_create", "memory_info", "alloc"]
    assert done.events[1].bytes == (16 << 30) - 300 * MIB and done.events[1].total == 16 << 30


def test_failures(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "failures")
    failed = done.of("alloc_failed")
    assert [(e.function, e.bytes, e.detail) for e in failed] == [
        ("cuMemAlloc_v2", 1 << 50, checks["alloc"][0]), ("cuMemAllocManaged", 1 << 50, checks["managed"][0]),
        ("cuMemAllocAsync", 1 << 50, checks["async"][0]), ("cuMemCreate", 1 << 50, checks["create"][0]),
        ("cuMemAlloc_v2", 1, checks["null"][0])]
    # Each failed free or unmap is followed by its correction.
    for kind in ("free", "unmap"):
        at = [i for i, e in enumerate(done.events) if e.kind == kind][0]
        correction = done.events[at + 1]
        assert correction.kind == "free_failed" and correction.address == done.events[at].address
    assert len(done.of("free_failed")) == 2 and len(done.of("free")) == 2
    # Right after a failure, what the device has left.
    for i, event in enumerate(done.events):
        if event.kind == "alloc_failed":
            assert done.events[i + 1].kind == "memory_info"


def test_pools(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "pools")
    pool, default_pool = checks["pool"][0], checks["default_pool"][0]
    assert [e.detail for e in done.of("alloc")] == [default_pool, pool, default_pool]
    assert [e.bytes for e in done.of("alloc")] == [5 * MIB, 40 * MIB, MIB]
    assert all(e.has("async") for e in done.of("alloc"))
    reserved = {}
    before_trim = None
    for event in done.events:
        if event.kind == "pool":
            if event.function == "cuMemPoolTrimTo" and before_trim is None:
                before_trim = sum(reserved.values())
            reserved[event.address] = event.total
    assert before_trim == checks["reserved"][0] > 0
    assert sum(reserved.values()) == checks["reserved_after_trim"][0] == 0
    assert one(done.of("pool_destroy")).address == pool
    assert sorted(e.address for e in done.of("free")) == sorted(e.address for e in done.of("alloc"))


def test_capture_has_no_memory(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "capture")
    assert one(done.of("alloc")).has("async", "captured") and one(done.of("free")).has("async", "captured")
    assert not done.of("delta")
    assert [(e.function, e.address, e.device, e.total) for e in graph_pools(done)] == [
        ("cuGraphLaunch", 1, 0, checks["launch"][0]), ("cuDeviceGraphMemTrim", 1, 0, 0)]
    assert checks["launch"][0] == checks["trim"][0] == 64 * MIB
    stream, graph, executable = checks["stream"][0], checks["graph"][0], checks["exec"][0]
    assert [(e.kind, e.address, e.detail) for e in done.events if e.kind.startswith(("capture", "graph"))] == [
        ("capture", stream, 0), ("capture_end", stream, graph), ("graph", executable, graph),
        ("graph_launch", executable, 0), ("graph_launch", executable, 0), ("graph_destroy", executable, 0)]


def test_many_graphs(tmp_path):
    """Programs that capture piece by piece have thousands; the first launch of each is looked at."""
    done, checks = call(tmp_path, "lines", "many_graphs")
    assert graph_pools(done)[-1].total == checks["graphs"][0] > 0


def test_graph_memory(tmp_path, recorder):
    """Whatever makes a graph take memory, the device's pool for graphs has it, once."""
    done, checks = call(tmp_path, recorder, "graph_memory", VRAMTRACE_STANDIN_DEVICES=2)
    nodes = [(e.function, e.address, e.bytes, e.device) for e in done.of("alloc") if e.has("async", "captured")]
    assert nodes == [(name, checks[name][0], size * MIB, device) for name, size, device in [
        ("cuGraphAddMemAllocNode", 32, 0), ("cuGraphAddNode_v2", 64, 1), ("cuMemAllocAsync", 100, 0)]]
    assert [(e.function, e.address) for e in done.of("free") if e.has("async", "captured")] == [
        ("cuGraphAddMemFreeNode", checks["cuGraphAddMemAllocNode"][0]), ("cuGraphAddNode_v2", checks["cuGraphAddNode_v2"][0])]
    assert not done.of("delta")
    reserved, states = {0: 0, 1: 0}, []
    for event in done.events:
        if event.kind == "pool" and event.has("captured"):
            assert event.address == event.device + 1 and event.stack
            reserved[event.device] = event.total
        elif event.kind == "reserve":  # a mark of the program's, after each part
            states.append((reserved[0], reserved[1]))
    assert states == list(zip(checks["graphs_0"], checks["graphs_1"]))
    assert len(states) == 6 and states[-1][0] == 0 < max(states)[0]
    if recorder == "trace":
        report = json.loads(subprocess.check_output([ANALYZER, "report", "--json", tmp_path / "recorded"]))
        categories = report["devices"][0]["peak"]["categories"]
        assert categories["workspace"] + categories["unknown"] == max(checks["graphs_0"])  # unknown: of nodes whose line is known
        info = json.loads(subprocess.check_output([ANALYZER, "info", "--json", tmp_path / "recorded"]))
        assert info["disagreements"]["unknown_frees"] == 0


def test_virtual_memory(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "virtual_memory")
    handle, address = checks["create"][0], checks["reserve"][0]
    seen = [(e.kind, e.address, e.bytes, e.detail) for e in done.events
            if e.kind not in ("context_create", "memory_info")]
    assert seen[:8] == [
        ("reserve", address, 8 * MIB, 0), ("handle_create", handle, 4 * MIB, 0), ("map", address, 4 * MIB, handle),
        ("handle_retain", checks["retained"][0], 0, 0), ("handle_release", checks["retained"][0], 0, 0),
        ("handle_release", handle, 0, 0), ("unmap", address, 4 * MIB, 0), ("unreserve", address, 8 * MIB, 0)]
    if "host" in checks:
        made = done.of("handle_create")[1]
        assert made.address == checks["host"][0] and made.has("host")


def test_sparse_arrays(tmp_path, recorder):
    """Physical memory lives as long as a tile of an array holds it."""
    done, checks = call(tmp_path, recorder, "sparse")
    assert checks["held"] == [4 * MIB, 4 * MIB, 0] and checks["refused"] == [1]
    mapped = [(e.kind, e.address, e.bytes) for e in done.of("map", "unmap")]
    first, second = mapped[0][1], mapped[1][1]
    assert mapped == [("map", first, 0), ("map", second, 0), ("unmap", first, 0), ("unmap", second, 0)]
    assert first != second and {event.detail for event in done.of("map")} == {one(done.of("handle_create")).address}
    if recorder == "trace":
        trace = tmp_path / "recorded"
        subprocess.run([ANALYZER, "export", "--format", "csv", "-o", tmp_path / "csv", trace], check=True)
        rows = (tmp_path / "csv" / "allocations.csv").read_text().splitlines()
        physical = [row.split(",") for row in rows if row.split(",")[4] == str(4 * MIB)]
        numbers = [number for number, event in enumerate(done.events) if event.kind == "unmap"]
        assert [row[6] for row in physical] == [str(numbers[1])]


def test_foreign(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "foreign")
    foreign = {e.address: e for e in done.of("alloc") if e.has("foreign")}
    assert foreign[checks["external"][0]].bytes == 3 * MIB
    assert foreign[checks["buffer"][0]].bytes == 0
    assert foreign[checks["buffer"][0]].detail == checks["external"][0]
    freed = {e.address for e in done.of("free")}
    assert set(foreign) <= freed


def test_loads(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "loads")
    by_function = {}
    for event in done.of("delta"):
        by_function.setdefault(event.function, []).append(signed(event.bytes))
    assert by_function["cuModuleLoadData"] == checks["module"] == [3 * MIB]
    library = by_function.get("cuLibraryLoadData", []) + by_function.get("cuLibraryGetModule", [])
    assert sum(library) == checks["library"][0] == 3 * MIB
    assert by_function["cuModuleUnload"] == by_function["cuLibraryUnload"] == [-3 * MIB]
    assert by_function["cuCtxSetLimit"] == checks["limit"] and checks["limit"][0] > 0


def test_kernels(tmp_path, recorder):
    """Kernels are loaded when they are first needed: the call that did it has the bytes, later ones record nothing."""
    done, checks = call(tmp_path, recorder, "kernels", VRAMTRACE_STANDIN_KERNEL="1MiB")
    deltas = [(event.function, signed(event.bytes)) for event in done.of("delta")]
    assert not any(checks.pop("nothing"))
    total, functions = checks.pop("all"), ("cuModuleLoadData", "cuLibraryLoadData", "cuModuleUnload")
    for function, values in checks.items():
        assert values == [MIB, 0, 0] * (len(values) // 3)
        assert [size for name, size in deltas if name == function] == [MIB] * (len(values) // 3)
    assert {name for name, _ in deltas} == set(checks) | set(functions)
    context = 300 * MIB
    assert [context + sum(size for _, size in deltas)] == total
    assert all(event.stack for event in done.of("delta"))


def test_streams(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "streams", VRAMTRACE_STANDIN_STREAM="2MiB")
    taken = [signed(event.bytes) for event in done.of("delta")]
    assert taken == [2 * MIB] * 48 + [-2 * MIB] * 48 and checks == {"made": [96 * MIB], "destroyed": [96 * MIB]}
    assert {event.function for event in done.of("delta")} == {"cuStreamCreate", "cuStreamCreateWithPriority", "cuStreamDestroy_v2"}


def test_contexts(tmp_path, recorder):
    done, checks = call(tmp_path, recorder, "contexts")
    primary, (own, own_again) = checks["primary"][0], checks["own"]
    assert [(e.kind, e.address) for e in done.of("context_create", "context_destroy")] == [
        ("context_create", primary), ("context_create", own), ("context_destroy", own),
        ("context_create", own_again), ("context_destroy", own_again),
        ("context_destroy", primary), ("context_create", primary), ("context_destroy", primary)]


def test_nothing_without_a_context(tmp_path, recorder):
    """Calls that fail for want of a context give the driver's error, and begin no recording."""
    done, checks = call(tmp_path, recorder, "no_context")
    plain = run(tmp_path, ["driver_calls", "no_context"], None)
    assert plain.output == done.output
    assert checks == {"before_init": [3], "before_context": [201], "free": [201]}
    assert not done.recorded
