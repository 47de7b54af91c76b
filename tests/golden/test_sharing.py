"""Memory that two processes share has one identity in both traces: a job shows it once, in the process that made it."""
import json
import subprocess

from harness import ANALYZER, LIBRARIES, PROGRAMS, environment, event_of_trace

MIB = 1 << 20


def events_of(trace):
    lines = subprocess.check_output([ANALYZER, "info", "--events", "--json", trace], text=True).splitlines()
    return [event_of_trace(json.loads(line)) for line in lines]


def test_one_allocation_in_two_processes(tmp_path):
    out, card = tmp_path / "out", tmp_path / "card"
    out.mkdir()
    env = environment(LIBRARIES["trace"], VRAMTRACE_OUT=out, VRAMTRACE_STANDIN_SHARED=card)
    done = subprocess.run([PROGRAMS / "sharing"], env=env, text=True, capture_output=True, check=True, timeout=120)
    true = dict(line.split() for line in done.stdout.splitlines())
    assert true["same"] == "1"  # else the third handle tests nothing
    job = json.loads(subprocess.check_output([ANALYZER, "report", "--json", out]))
    by_pid = {process["pid"]: number for number, process in enumerate(job["processes"])}
    owner, user = by_pid[int(true["owner"])], by_pid[int(true["user"])]
    shared = [(row["owner"], row["bytes"], row["users"], row["file"].split("/")[-1]) for row in job["shared"]]
    assert shared == [(owner, 8 * MIB, [user], "sharing.c"), (owner, 4 * MIB, [user], "sharing.c")]
    peaks = {number: process["devices"][0]["peak"]["used_bytes"] for number, process in enumerate(job["processes"])}
    assert peaks == {owner: 28 * MIB, user: 0}

    made, used = (events_of(job["processes"][number]["file"]) for number in (owner, user))
    exports = {event.function: event.detail for event in made if event.kind == "export"}
    imports = {event.function: event.total for event in used if event.has("foreign")}
    assert exports["cuIpcGetMemHandle"] == imports["cuIpcOpenMemHandle_v2"] != 0
    assert exports["cuMemExportToShareableHandle"] == imports["cuMemImportFromShareableHandle"] != 0
    assert len(set(exports.values())) == 2

    text = subprocess.check_output([ANALYZER, "report", "--full", out], text=True)
    assert "Shared memory of" in text and text.count("sharing.c") >= 2
