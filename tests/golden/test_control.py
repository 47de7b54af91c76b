"""A recorder that is asked while its process runs: what it records from then on, against the process's own books."""
import fcntl
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import ENVIRONMENT, LIBRARY, RUN, events, report, vramtrace  # noqa: E402

# Obeys one line at a time, and answers with what it has allocated by then.
HOST = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
ours = ctypes.CDLL(None)
context, blocks = ctypes.c_void_p(), {}
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
def allocate(size):
    address = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)) == 0
    blocks[address.value] = size
def free(_):
    address = min(blocks)
    assert cuda.cuMemFree_v2(ctypes.c_uint64(address)) == 0
    del blocks[address]
def start(_): assert ours.vramtrace_start() == 1
def stop(_): assert ours.vramtrace_stop() == 1
def mark(name): assert ours.vramtrace_mark(b"vramtrace.step" if name == 1 else b"other") == 1
for line in sys.stdin:
    name, _, number = line.partition(" ")
    globals()[name.strip()](int(number or 0))
    print(sum(blocks.values()), flush=True)
"""


class Host:
    def __init__(self, folder, **settings):
        (folder / "host.py").write_text(HOST)
        self.trace = folder / "x.vrt"
        self.process = subprocess.Popen([*RUN, "env", f"LD_PRELOAD={LIBRARY}", sys.executable, folder / "host.py"],
                                        env={**ENVIRONMENT, "VRAMTRACE_OUT": str(self.trace), "VRAMTRACE_QUIET": "1", **settings},
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = str(self.process.pid)

    def do(self, *lines):
        """What the process holds after them, in bytes."""
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            held = int(self.process.stdout.readline())
        return held

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0

    def made(self):
        """Bytes and frames of each allocation in the trace."""
        return [(event["bytes"], len(event["stack"])) for event in events(self.trace) if event["kind"] == "alloc"]


@pytest.fixture
def start_host(tmp_path):
    hosts = []

    def start(**settings):
        hosts.append(Host(tmp_path, **settings))
        return hosts[-1]
    yield start
    for host in hosts:
        host.process.kill()
        host.process.wait()


def ctl(*arguments, check=True):
    return vramtrace("ctl", *arguments, check=check)


def listed(host):
    """State and bytes of this process in the list, or None."""
    for line in ctl().stdout.splitlines()[1:]:
        words = line.split()
        if words[0] == host.pid:
            return words[1], " ".join(words[2:4]), words[4]


def test_stopped_and_started(start_host):
    host = start_host()
    host.do("allocate 4096")
    assert listed(host) == ("recording", "4 KiB", str(host.trace))
    stopped = ctl(host.pid, "stop").stdout
    assert "without stacks" in stopped and stopped.endswith(f"resume: vramtrace ctl {host.pid} start\n")
    held = host.do("allocate 8192", "free", "allocate 16384")
    assert listed(host)[0] == "paused"
    ctl(host.trace, "start")
    held = host.do("allocate 32768")
    host.end()
    made = host.made()
    assert [size for size, _ in made] == [4096, 8192, 16384, 32768]
    assert [frames > 0 for _, frames in made] == [True, False, False, True]
    told = report(host.trace, "--at", "end")
    at_end = told["devices"][0]["at"]
    assert at_end["driver_bytes"] - at_end["context_bytes"] == held
    assert "Recording was paused for" in vramtrace("report", host.trace).stdout


def test_by_the_program(start_host):
    host = start_host()
    host.do("allocate 4096", "stop 0", "allocate 8192", "start 0", "allocate 16384")
    host.end()
    assert [(size, frames > 0) for size, frames in host.made()] == [(4096, True), (8192, False), (16384, True)]
    assert [event["kind"] for event in events(host.trace) if event["kind"] in ("pause", "resume")] == ["pause", "resume"]


def test_begins_when_asked(start_host):
    host = start_host(VRAMTRACE_START="manual")
    host.do("allocate 4096")
    assert listed(host)[0] == "paused"
    ctl(host.pid, "start")
    host.do("allocate 8192")
    host.end()
    assert [(size, frames > 0) for size, frames in host.made()] == [(4096, False), (8192, True)]
    assert events(host.trace)[0]["kind"] == "pause"


def test_begins_with_a_step(start_host):
    host = start_host(VRAMTRACE_START="step:3")
    host.do("allocate 4096", "mark 1", "allocate 8192", "mark 0", "mark 1", "allocate 16384", "mark 1", "allocate 32768")
    host.end()
    assert [(size, frames > 0) for size, frames in host.made()] == [(4096, False), (8192, False), (16384, True), (32768, True)]


def test_marks(start_host):
    host = start_host()
    host.do("allocate 4096")
    told = ctl(host.pid, "mark", "first 'mark'")
    assert shlex.split(told.stdout.partition("next: ")[2]) == ["vramtrace", "report", "--at", "mark:first 'mark'", str(host.trace)]
    host.do("allocate 8192")
    ctl(host.pid, "inspect")
    host.end()
    assert [event["name"] for event in events(host.trace) if event["kind"] == "mark"] == ["first 'mark'", "inspect"]


def test_a_snapshot(start_host, tmp_path):
    host = start_host()
    held = host.do("allocate 4096", "allocate 8192", "free")
    copy = tmp_path / "copy.vrt"
    assert str(copy) in ctl(host.pid, "snapshot", copy).stdout
    assert copy.stat().st_mode & 0o777 == 0o600
    host.do("allocate 65536")
    assert vramtrace("info", "--verify", copy).returncode == 0
    sizes = {event["address"]: event["bytes"] for event in events(copy) if event["kind"] == "alloc"}
    for event in events(copy):
        if event["kind"] == "free":
            del sizes[event["address"]]
    assert sum(sizes.values()) == held
    assert json.loads(vramtrace("info", "--json", copy).stdout)["trace"]["state"] == "snapshot"
    assert "snapshot of a running process" in vramtrace("report", copy).stdout
    host.end()
    assert len(host.made()) == 3


def test_one_that_does_not_answer(start_host):
    host = start_host()
    host.do("allocate 4096")
    os.kill(host.process.pid, signal.SIGSTOP)
    told = ctl(host.pid, "mark", "late", check=False)
    assert told.returncode == 3 and "no answer" in told.stderr
    os.kill(host.process.pid, signal.SIGCONT)
    deadline = time.monotonic() + 10
    while "late" not in vramtrace("info", "--events", host.trace).stdout and time.monotonic() < deadline:
        time.sleep(0.05)
    host.end()
    assert [event["name"] for event in events(host.trace) if event["kind"] == "mark"] == ["late"]


def test_one_that_was_killed(start_host):
    host = start_host()
    host.do("allocate 4096")
    host.process.kill()
    host.process.wait()
    assert listed(host) is None
    assert ctl(host.pid, "stop", check=False).returncode == 3


@pytest.mark.parametrize("arguments, status, words", [
    (["1"], 2, "missing action"),
    (["1", "strat"], 2, "did you mean 'start'?"),
    (["1", "start", "now"], 2, "unexpected argument 'now'"),
    (["1", "mark", "a", "b"], 2, "unexpected argument 'b'"),
    (["1", "start"], 3, "process 1 is not being recorded"),
    (["no-such.vrt", "start"], 3, "process no-such.vrt is not being recorded"),
])
def test_wrong_use(arguments, status, words):
    told = ctl(*arguments, check=False)
    assert (told.returncode, told.stdout) == (status, "") and words in told.stderr


def test_a_setting_that_is_not_understood(start_host):
    (host := start_host(VRAMTRACE_START="step:0", VRAMTRACE_QUIET="0")).do("allocate 4096")
    host.end()
    assert host.made()[0][1] > 0


def test_a_stopped_ctl_holds_up_nobody(start_host):
    """Another caller has the ring's lock, and does not go on."""
    host = start_host()
    host.do("allocate 4096")
    (ring,) = (path for path in pathlib.Path("/dev/shm").glob(f"vramtrace.*.{host.pid}.*.ring"))
    with open(ring, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "mark set" in ctl(host.pid, "mark", "held").stdout
    host.end()
