"""vramtrace top beside real trainings: its numbers against torch's own counters at the same moments, and what it costs."""
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from helpers import ENVIRONMENT, LIBRARY, PROGRAM, PYTHON, RUN, vramtrace  # noqa: E402
from test_terminal import Terminal  # noqa: E402

HERE = pathlib.Path(__file__).parent
PAUSES = 50
BESIDE_S = float(os.environ.get("VRAMTRACE_TOP_SECONDS", "5"))  # the long form: 60


class Training:
    def __init__(self, folder, script=HERE / "top_script.py", **settings):
        self.trace = folder / "x.vrt"
        self.process = subprocess.Popen(
            [*RUN, "env", f"LD_PRELOAD={LIBRARY}", PYTHON, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**ENVIRONMENT, "VRAMTRACE_OUT": str(self.trace), "VRAMTRACE_QUIET": "1", "RANK": "5",
                            "VRAMTRACE_STANDIN_DEVICES": "2", **settings})
        self.pid = str(self.process.pid)

    def go_on(self, line=""):
        """What torch counts on each device once the process stands still again."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(**settings):
        started.append(Training(tmp_path, **settings))
        return started[-1]
    yield begin
    for training in started:
        training.process.kill()
        training.process.wait()


# A server with objects as vLLM's are; each line of input starts as many requests, of a block each.
SERVES = """
import json, sys, types, torch
made = lambda name, **inside: type(name, (types.SimpleNamespace,), {"__module__": "vllm.core"})(**inside)
free, running = made("FreeBlocks", num_free_blocks=60), []
engine = made("Engine", pool=made("BlockPool", num_gpu_blocks=64, free_block_queue=free), config=made("CacheConfig", block_size=16),
              scheduler=made("Scheduler", running=running), cache=torch.empty(64, 16, 1024, device="cuda"))
for line in sys.stdin:
    running += [1] * int(line) + [torch.empty(1, device="cuda")] * 0
    free.num_free_blocks -= int(line)
    print(json.dumps([16 * (64 - free.num_free_blocks), len(running)]), flush=True)
"""


def test_a_servers_pool(start, tmp_path):
    """What its objects say when an inspection is asked for is what `top` shows afterwards."""
    (tmp_path / "serves.py").write_text(SERVES)
    server = start(script=tmp_path / "serves.py")
    for requests in (3, 5):
        used, running = server.go_on(requests)
        asked = subprocess.Popen([PROGRAM, "ctl", server.pid, "inspect"], stdout=subprocess.DEVNULL)
        while asked.poll() is None:  # a safe moment: where the allocator is called
            server.go_on(0)
        used, running = server.go_on(0)  # asked for by now, and at the latest here there is a safe moment
        process, = json.loads(vramtrace("top", "--once", "--json", server.pid).stdout)["processes"]
        assert (process["kv_pool_tokens"], process["kv_used_tokens"], process["requests"]) == (1024, used, running) != (1024, 0, 0)


@pytest.mark.parametrize("allocator", ["", "expandable_segments:True", "max_split_size_mb:32,garbage_collection_threshold:0.6"])
def test_torchs_own_counters(start, allocator):
    training = start(PYTORCH_ALLOC_CONF=allocator, PYTORCH_CUDA_ALLOC_CONF=allocator)
    contexts = {}
    for _ in range(PAUSES):
        counted = training.go_on()
        told = json.loads(vramtrace("top", "--once", "--json", training.pid).stdout)
        process, = told["processes"]
        assert (process["pid"], process["rank"], process["state"], process["settled"]) == (int(training.pid), "5", "recording", True)
        assert (process["lost_events"], process["lost_definitions"]) == (0, 0)
        held = {use["device"]: use for use in process["devices"]}
        for device, counters in enumerate(counted):
            use = held[device]
            assert {"allocated": use["block_bytes"], "reserved": use["segment_bytes"], "max_allocated": use["block_peak_bytes"],
                    "max_reserved": use["segment_peak_bytes"]} == {name: counters[name] for name in counters
                                                                   if name not in ("used", "total", "uuid")}
            assert use["uuid"] == counters["uuid"]
            assert use["driver_bytes"] == counters["reserved"]  # nothing but torch allocates here
            # What the driver itself counts has the context besides, which stays as it is.
            assert contexts.setdefault(device, counters["used"] - use["driver_bytes"]) == counters["used"] - use["driver_bytes"]
        for card in told["devices"]:
            use = held[card["device"]]
            assert (card["uuid"], card["total_bytes"]) == (use["uuid"], counted[card["device"]]["total"])
            assert [card[name] for name in ("driver_bytes", "segment_bytes", "block_bytes", "processes")] == \
                [use["driver_bytes"], use["segment_bytes"], use["block_bytes"], 1]
    assert len(held) == len(counted) >= 1
    training.end()


def seconds_of(pid):
    """User and system time of a process, as the kernel counts it."""
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def test_beside_a_training(start):
    training = start()
    training.go_on()
    terminal = Terminal(["top", training.pid], rows=24, columns=80)
    terminal.wait_for(training.pid.encode())
    begun, before = time.monotonic(), seconds_of(terminal.process.pid)
    turns = 0
    while time.monotonic() - begun < BESIDE_S:
        training.go_on()
        turns += 1
    passed, took = time.monotonic() - begun, seconds_of(terminal.process.pid) - before
    terminal.press(b"q")
    text, status = terminal.end()
    training.end()
    print(f"{turns} turns in {passed:.1f} s; top took {took:.2f} s of a core, {100 * took / passed:.2f} %")
    assert status == 0 and "HISTORY" in text
    assert took <= 0.01 * passed + 1 / os.sysconf("SC_CLK_TCK")  # the kernel counts in ticks


def test_it_ends_with_the_process(start):
    training = start()
    training.go_on()
    told = subprocess.Popen([PROGRAM, "top", "--interval", "1", "--json", training.pid], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, env=ENVIRONMENT)
    first = json.loads(told.stdout.readline())
    training.end()
    lines, said = told.communicate(timeout=30)
    states = [process["state"] for line in lines.splitlines() for process in json.loads(line)["processes"]]
    assert first["processes"][0]["events_per_second"] is None
    assert set(states) <= {"recording", "ended"} and states[-1:] == ["ended"] and states.count("ended") == 1
    assert told.returncode == 0 and f"vramtrace report {training.trace}" in said
