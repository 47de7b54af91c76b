"""The ring in memory: what a killed process leaves there is read and adopted, and nothing that happens to ring or trace
hurts the host."""
import contextlib
import ctypes
import fcntl
import os
import pathlib
import platform
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import BUILD, ENVIRONMENT, LIBRARY, RUN, events, info, run, vramtrace  # noqa: E402
from test_trouble import START, needs_root, python  # noqa: E402

FOLDER = pathlib.Path("/dev/shm")
STATE, CONSUMED, CHUNKS_END, EVENTS, IDENTITY, RING_PATH = 176, 200, 208, 216, 1352, 1368  # fields of struct vt_file_header
RING_IDENTITY, RING_BEGAN, RING_RESERVED, RING_EVENTS, RING_HEADER_BYTES = 24, 56, 88, 104, 65536  # of struct vt_ring_header
CHUNK = struct.Struct("<IIIIIIQQ")  # struct vt_chunk_header
DELAY_S = 0.3  # what a busy machine may add to the 0.1 s after which events are in the file
pytestmark = pytest.mark.skipif(subprocess.run(["stat", "-fc%T", FOLDER], capture_output=True, text=True).stdout.strip()
                                != "tmpfs", reason="needs /dev/shm in memory")


def said(trace):
    return " ".join(vramtrace("report", "--full", trace).stdout.split())


def ring_bytes(trace):
    return struct.unpack_from("<Q", trace.read_bytes(), 32)[0] * 64


def allocations(trace):
    return info(trace)["counts"]["kinds"]["alloc"]["driver"]


@pytest.fixture(scope="module", autouse=True)
def alone():
    """A /dev/shm of this thread's own, where no other test's process adopts a ring."""
    library, namespace = ctypes.CDLL(None, use_errno=True), 0x20000
    with open("/proc/thread-self/ns/mnt") as before:
        if library.unshare(namespace):
            pytest.skip("needs a /dev/shm of its own: " + os.strerror(ctypes.get_errno()))
        for command in (["mount", "--make-rprivate", "/"], ["mount", "-t", "tmpfs", "tmpfs", FOLDER]):
            subprocess.run(command, check=True)
        yield
        assert library.setns(before.fileno(), namespace) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    for ring in FOLDER.glob("*.ring"):
        ring.unlink()


class Live:
    """A recording process that answers each line of input with what it printed for it."""

    def __init__(self, trace, preloaded="", inside=(), **settings):
        code = START + "for line in sys.stdin:\n    exec(line)\n    print('done', flush=True)\n"
        self.trace = trace
        self.process = subprocess.Popen(
            [*RUN, *inside, "env", f"LD_PRELOAD={LIBRARY}:{preloaded}", sys.executable, "-c", code], text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**ENVIRONMENT, "VRAMTRACE_OUT": str(trace), **settings})

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        lines = []
        while (answer := self.process.stdout.readline()) != "done\n":
            assert answer, self.process.stderr.read()
            lines.append(answer)
        return "".join(lines)

    def ring(self):
        path = self.trace.read_bytes()[RING_PATH:RING_PATH + 256].partition(b"\0")[0]
        return pathlib.Path(os.fsdecode(path))

    def child(self):
        """Its number here, if it is in a namespace of its own: what `inside` began."""
        return int(pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text())

    def kill(self):
        self.left = self.ring()
        self.process.kill()
        self.process.communicate()

    def end(self):
        output, error = self.process.communicate()
        assert self.process.returncode == 0, error
        return error


def live(trace, count=1, **settings):
    process = Live(trace, **settings)
    process.do(f"for _ in range({count}): allocate()")
    return process


def killed(trace, count=100, **settings):
    process = live(trace, count, **settings)
    process.kill()
    return process.left


def wait_until(true, seconds=10):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


# ---- Files ----


def test_small_runs_make_small_traces(tmp_path):
    python("for _ in range(10): allocate()", tmp_path / "x.vrt")
    assert allocations(tmp_path / "x.vrt") == 10
    assert (tmp_path / "x.vrt").stat().st_size < 20_000


def test_the_ring_is_private_and_goes_at_the_end(tmp_path):
    process = live(tmp_path / "x.vrt")
    ring = process.ring()
    status = ring.stat()
    assert status.st_mode & 0o777 == 0o600 and status.st_blocks * 512 >= status.st_size > 4 << 20
    assert str(ring).encode() in (tmp_path / "x.vrt").read_bytes()[:4096]
    maps = pathlib.Path(f"/proc/{process.process.pid}/maps").read_text()
    assert str(ring) in maps and "x.vrt" not in maps
    process.end()
    assert not ring.exists()
    assert info(tmp_path / "x.vrt")["trace"]["complete"]


def test_events_are_in_the_file_soon(tmp_path):
    process = live(tmp_path / "x.vrt", 10)
    time.sleep(0.1 + DELAY_S)
    process.do("for _ in range(25): allocate()")
    time.sleep(0.1 + DELAY_S)
    process.ring().unlink()
    assert allocations(tmp_path / "x.vrt") == 35
    process.kill()


def test_two_at_once(tmp_path):
    both = [live(tmp_path / f"{number}.vrt", 50) for number in range(2)]
    left = [process.ring() for process in both]
    assert len(set(left)) == 2
    for process in both:
        process.end()
        assert allocations(process.trace) == 50
    assert not any(ring.exists() for ring in left)


def test_a_running_process_is_read(tmp_path):
    """Records move from the ring to the file all the time: none is missed, none is doubled."""
    process = live(tmp_path / "x.vrt")
    process.process.stdin.write("for _ in range(300000): cuda.cuMemFree_v2(allocate())\n")
    process.process.stdin.flush()
    before = 0
    for _ in range(15):
        seen = info(tmp_path / "x.vrt")
        kinds, trace = seen["counts"]["kinds"], seen["trace"]
        assert not trace["truncated"] and not trace["ring_missing"] and trace["state"] in ("recording", "complete")
        assert seen["disagreements"]["unknown_frees"] == 0 and seen["disagreements"]["doubled_allocations"] == 0
        made = kinds["alloc"]["driver"] + kinds.get("free", {}).get("driver", 0)
        assert made >= before
        before = made
    process.kill()


# ---- Killed ----


@pytest.mark.parametrize("pause", [0, 0.05, 0.25])
def test_killed(tmp_path, pause):
    process = live(tmp_path / "x.vrt", 100)
    time.sleep(pause)
    process.do("for _ in range(100): allocate()")
    ring = process.ring()
    process.kill()
    assert allocations(tmp_path / "x.vrt") == 200
    assert info(tmp_path / "x.vrt")["trace"]["ring_missing"] is False
    assert "All events up to that point are included" in said(tmp_path / "x.vrt")
    ring.unlink()


def test_who_is_killed_records_no_more(tmp_path):
    """Also before its parent has asked how it ended; but without its first thread a process goes on."""
    process = live(tmp_path / "x.vrt")
    other = live(tmp_path / "y.vrt")
    other.process.stdin.write("import threading, time; threading.Thread(target=time.sleep, args=(9,)).start(); "
                              "ctypes.CDLL(None).pthread_exit(None)\n")
    other.process.stdin.flush()
    stat = pathlib.Path(f"/proc/{other.process.pid}/stat")
    wait_until(lambda: ") Z " in stat.read_text())
    assert f"{process.process.pid} " in vramtrace("ctl").stdout
    process.kill()
    listed = vramtrace("ctl").stdout
    assert str(process.trace) not in listed and str(other.trace) in listed
    other.kill()


def last_moments(process):
    """Allocates for half a second; the times (seconds) at which each was done."""
    said = process.do("exec('import time; end = time.monotonic() + 0.6\\nwhile time.monotonic() < end: allocate(), "
                      "print(time.monotonic()), time.sleep(0.002)')")
    return [float(line) for line in said.split()]


def test_killed_and_the_ring_is_gone(tmp_path):
    process = live(tmp_path / "x.vrt")
    times = last_moments(process)
    end = time.monotonic()
    process.kill()
    process.left.unlink()
    assert allocations(tmp_path / "x.vrt") - 1 >= sum(moment < end - 0.1 - DELAY_S for moment in times) > 0
    seen = info(tmp_path / "x.vrt")["trace"]
    assert seen["ring_missing"] is True and seen["complete"] is False and not seen["truncated"]
    assert "The last 0.1 s may be missing" in said(tmp_path / "x.vrt")


def test_a_ring_that_is_not_the_traces(tmp_path):
    """Another identity, a cut file, another folder, a link: it is as if there were none."""
    ring = killed(tmp_path / "x.vrt")
    original, trace = ring.read_bytes(), (tmp_path / "x.vrt").read_bytes()
    wrong = bytearray(original)
    wrong[RING_IDENTITY] ^= 1
    for data in (bytes(wrong), original[:-64], original[:100], b""):
        ring.write_bytes(data)
        assert info(tmp_path / "x.vrt")["trace"]["ring_missing"] is True
    ring.write_bytes(original)
    assert info(tmp_path / "x.vrt")["trace"]["ring_missing"] is False
    elsewhere = tmp_path / ring.name
    elsewhere.symlink_to(ring)
    for place in (elsewhere, FOLDER / "x" / ".." / ("a" + ring.name), FOLDER / "somebody.ring"):
        changed = bytearray(trace)
        changed[RING_PATH:RING_PATH + 256] = str(place).encode().ljust(256, b"\0")[:256]
        (tmp_path / "y.vrt").write_bytes(changed)
        assert info(tmp_path / "y.vrt")["trace"]["ring_missing"] is True
    ring.unlink()


def test_killed_between_the_steps_of_a_chunk(tmp_path):
    """Whole chunks that the header does not name count; half a chunk is no damage."""
    process = live(tmp_path / "x.vrt", 100)
    time.sleep(0.1 + DELAY_S)
    process.do("for _ in range(100): allocate()")
    time.sleep(0.1 + DELAY_S)
    ring = process.ring()
    process.kill()
    data = bytearray((tmp_path / "x.vrt").read_bytes())
    offset, found = 4096, []
    while offset < len(data):
        fields = CHUNK.unpack_from(data, offset)
        found.append((offset, fields[6]))
        offset += fields[1] + fields[2]
    assert len(found) > 1
    first = data[found[0][0]:found[1][0]]
    for back in range(1, len(found)):
        end, position = found[-back][0], found[-back - 1][1]
        data[CONSUMED:CHUNKS_END + 8] = struct.pack("<QQ", position, end)
        for rest in (b"", first[:-1], first, bytes(1000)):  # the third is an old chunk
            (tmp_path / "y.vrt").write_bytes(data + rest)
            assert allocations(tmp_path / "y.vrt") == 200
            assert not info(tmp_path / "y.vrt")["trace"]["truncated"]
    ring.unlink()


def test_killed_after_recording_stopped(tmp_path):
    """What came after it is counted."""
    process = Live(tmp_path / "x.vrt", VRAMTRACE_LIMIT="1MiB")
    process.do("import random; used = lambda: cuda.cuMemFree_v2(allocate(random.randrange(1, 1 << 12) << 9))")
    while info(process.trace)["trace"]["state"] == "recording":
        process.do("for _ in range(10000): used()")
    time.sleep(0.1 + DELAY_S)
    before = info(process.trace)["trace"]["events_after_end"]
    process.do("for _ in range(1000): used()")
    assert not process.ring().exists()
    wait_until(lambda: info(process.trace)["trace"]["events_after_end"] >= before + 2000)
    process.kill()
    assert info(process.trace)["trace"]["events_after_end"] >= before + 2000


# ---- Adoption ----


def wait_until_gone(ring, seconds=5):
    wait_until(lambda: not ring.exists(), seconds)


def test_the_next_process_adopts_a_ring(tmp_path):
    ring = killed(tmp_path / "x.vrt", 1000)
    before = [event["address"] for event in events(tmp_path / "x.vrt", stacks=False)]
    later = live(tmp_path / "later.vrt")
    wait_until_gone(ring)
    seen = info(tmp_path / "x.vrt")["trace"]
    assert seen["state"] == "killed" and seen["complete"] is False and seen["ring_missing"] is False
    assert [event["address"] for event in events(tmp_path / "x.vrt", stacks=False)] == before and len(before) >= 1000
    assert "The process was killed. All events" in said(tmp_path / "x.vrt")
    vramtrace("info", "--verify", tmp_path / "x.vrt")
    later.end()
    assert allocations(tmp_path / "later.vrt") == 1


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, which can be frozen as a dead one is."""
    image, folder = tmp_path / "image", tmp_path / "disk"
    folder.mkdir()
    with open(image, "wb") as file:
        file.truncate(32 << 20)
    for command in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, folder],
                    ["fsfreeze", "-f", folder], ["fsfreeze", "-u", folder]):
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            pytest.skip(f"no {command[0]} here")
        if done.returncode:
            subprocess.run(["umount", folder], capture_output=True)
            pytest.skip(f"no file system to freeze here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["fsfreeze", "-u", folder], capture_output=True)
    subprocess.run(["umount", "-l", folder], capture_output=True)


def test_a_dead_disk_of_another_process(disk, tmp_path):
    """Who opens a file there waits for ever, and cannot be killed: only a process whose own trace is there adopts the ring."""
    ring = killed(disk / "x.vrt", 100)
    subprocess.run(["fsfreeze", "-f", disk], check=True)
    for lifetime in (0, 8):
        other = live(tmp_path / f"other{lifetime}.vrt")
        time.sleep(lifetime)
        other.process.communicate(timeout=20)
        assert other.process.returncode == 0 and ring.exists()
    subprocess.run(["fsfreeze", "-u", disk], check=True)
    own = live(disk / "own.vrt")
    wait_until_gone(ring)
    own.end()
    assert allocations(disk / "x.vrt") == 100


def test_the_file_system_of_a_trace_behind_a_link(disk, tmp_path):
    """What counts is where the trace is, not how it was named."""
    (tmp_path / "link").symlink_to(disk)
    for first, second, adopted in ((tmp_path / "link" / "a.vrt", tmp_path / "b.vrt", False),
                                   (disk / "c.vrt", tmp_path / "link" / "d.vrt", True)):
        ring = killed(first, 10)
        other = live(second)
        time.sleep(0 if adopted else 3)
        if adopted:
            wait_until_gone(ring)
        other.end()
        assert ring.exists() != adopted
        ring.unlink(missing_ok=True)


def test_many_rings_and_several_adopters(tmp_path):
    left = [killed(tmp_path / f"{number}.vrt", 10 + number) for number in range(6)]
    adopters = [live(tmp_path / f"later{number}.vrt") for number in range(3)]
    for ring in left:
        wait_until_gone(ring)
    for process in adopters:
        process.end()
    for number in range(6):
        assert allocations(tmp_path / f"{number}.vrt") == 10 + number
        assert info(tmp_path / f"{number}.vrt")["trace"]["state"] == "killed"


def test_a_process_adopts_as_long_as_it_lives(tmp_path):
    first = live(tmp_path / "first.vrt")
    time.sleep(2)
    rings = [killed(tmp_path / f"{number}.vrt", 10) for number in range(3)]
    for ring in rings:
        wait_until_gone(ring, seconds=10)
    first.end()
    assert [allocations(tmp_path / f"{number}.vrt") for number in range(3)] == [10, 10, 10]


def kept(ring):
    """Its path under nobody's number."""
    return ring.with_name(re.sub(r"^(vramtrace\.\d+)\.\d+", r"\1.0", ring.name))


def test_a_trace_that_was_moved(tmp_path):
    """Its ring is still found by who reads it, but takes little memory, and no time of those that look for rings."""
    left = [killed(tmp_path / f"{number}.vrt", 1000) for number in range(3)]
    (tmp_path / "0.vrt").rename(tmp_path / "moved.vrt")
    (tmp_path / "1.vrt").unlink()
    (tmp_path / "1.vrt").write_text("something else")
    (tmp_path / "2.vrt").rename(tmp_path / "two.vrt")
    other = live(tmp_path / "2.vrt", 7)
    process = live(tmp_path / "later.vrt")
    for ring in left:
        wait_until_gone(ring)
    process.end()
    other.end()
    assert max(kept(ring).stat().st_blocks for ring in left) < 1000
    assert allocations(tmp_path / "moved.vrt") == 1000 and allocations(tmp_path / "two.vrt") == 1000
    assert allocations(tmp_path / "2.vrt") == 7
    assert (tmp_path / "1.vrt").read_text() == "something else"
    for ring in left:
        kept(ring).unlink()


def test_what_a_process_recorded_until_it_ended_is_adopted(tmp_path):
    """Also where who adopts had looked at the ring before."""
    process = live(tmp_path / "x.vrt", 10)
    ring, read = process.ring(), tmp_path / "read"
    adopter = live(tmp_path / "later.vrt", preloaded=BUILD / "tests/faults/slow_adopter.so", SLOW_RING=str(ring),
                   SLOW_READ=str(read), SLOW_UNTIL=str(process.process.pid))
    wait_until(read.exists)
    process.do("for _ in range(50): allocate()")
    process.kill()
    wait_until_gone(ring)
    adopter.end()
    assert allocations(tmp_path / "x.vrt") == 60
    assert info(tmp_path / "x.vrt")["trace"]["state"] == "killed"


@needs_root
def test_one_that_cannot_be_adopted_holds_up_no_other(tmp_path):
    """A limit of what the adopter may write, as a full disk: it takes no more of it at each attempt."""
    rings = [killed(tmp_path / f"{number}.vrt", 10) for number in range(2)]
    large = live(tmp_path / "large.vrt", 20000)
    large.process.stdin.write("while True: [cuda.cuMemFree_v2(allocate()) for _ in range(500)]; print(flush=True)\n")
    large.process.stdin.flush()
    for _ in range(10):  # killed while it records, however long it took to begin
        large.process.stdout.readline()
    large.kill()
    rings += [killed(tmp_path / f"{number}.vrt", 10) for number in range(2, 4)]
    size, count = large.trace.stat().st_size, allocations(large.trace)
    adopter = live(tmp_path / "later.vrt")
    adopter.do(f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size + 10}, resource.RLIM_INFINITY))")
    for ring in rings:
        wait_until_gone(ring, seconds=10)
    assert large.left.exists()
    assert allocations(large.trace) == count >= 20000 and large.trace.stat().st_size == size
    adopter.do("resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))")
    wait_until_gone(large.left, seconds=10)
    assert allocations(large.trace) == count and info(large.trace)["trace"]["state"] == "killed"
    adopter.end()


def test_what_nobody_needs_is_removed_after_a_day(tmp_path):
    """A ring without its trace, and one whose process was killed while it made it; none that is another version's."""
    without = killed(tmp_path / "x.vrt")
    (tmp_path / "x.vrt").unlink()
    empty, begun, other = [without.with_name(re.sub("[0-9a-f]{16}", number * 16, without.name)) for number in "abc"]
    empty.write_bytes(b"")
    begun.write_bytes(bytes(20000))
    other.write_bytes(b"VRAMRNG\n\x63" + bytes(20000))
    process = live(tmp_path / "now.vrt")
    wait_until(kept(without).exists)
    time.sleep(0.2)
    assert empty.exists() and begun.exists() and other.exists()
    process.end()
    old = (kept(without), empty, begun, other)
    process = live(tmp_path / "later.vrt", preloaded=BUILD / "tests/faults/old_files.so", OLD_FILES=":".join(map(str, old)))
    for ring in old[:3]:
        wait_until_gone(ring)
    process.end()
    assert other.exists()
    other.unlink()


@pytest.mark.parametrize("instead", ["link", "folder"])
def test_something_else_in_the_place_of_a_trace(tmp_path, instead):
    ring = killed(tmp_path / "x.vrt", 10)
    (tmp_path / "x.vrt").rename(tmp_path / "moved.vrt")
    if instead == "link":
        (tmp_path / "x.vrt").symlink_to(tmp_path / "moved.vrt")
    else:
        (tmp_path / "x.vrt").mkdir()
    process = live(tmp_path / "later.vrt")
    wait_until_gone(ring)
    process.end()
    assert allocations(tmp_path / "moved.vrt") == 10
    kept(ring).unlink()


def test_how_many_events_an_adopted_trace_has(tmp_path):
    """The killed process has counted a chunk that it could not write any more."""
    ring = killed(tmp_path / "x.vrt", 10)
    data = bytearray(ring.read_bytes())
    data[RING_EVENTS:RING_EVENTS + 8] = struct.pack("<Q", 1000)
    ring.write_bytes(data)
    live(tmp_path / "later.vrt").end()
    wait_until_gone(ring)
    count = struct.unpack_from("<Q", (tmp_path / "x.vrt").read_bytes(), EVENTS)[0]
    assert count == len(events(tmp_path / "x.vrt", stacks=False)) > 10


def test_only_one_adopts_a_ring(tmp_path):
    """Who appends it holds its lock. Whoever comes later finds it no more, or does it if the first one died meanwhile."""
    ring = killed(tmp_path / "x.vrt", 10)
    adopter = live(tmp_path / "later.vrt")
    with open(ring) as locked:
        fcntl.flock(locked, fcntl.LOCK_EX)
        time.sleep(2)
        assert ring.exists() and info(tmp_path / "x.vrt")["trace"]["state"] == "recording"
    wait_until_gone(ring, seconds=10)
    adopter.end()
    seen = info(tmp_path / "x.vrt")["trace"]
    assert seen["state"] == "killed" and allocations(tmp_path / "x.vrt") == 10


# ---- Who is dead, and who is not: other namespaces, other programs, stopped processes ----


APART = ["unshare", "--pid", "--fork", "--mount-proc"]


def first_line(trace):
    return vramtrace("report", trace).stdout.splitlines()[0]


def test_killed_in_another_pid_namespace(tmp_path):
    """Its number means nothing here: the kernel's mark in the ring says that it is dead."""
    process = live(tmp_path / "x.vrt", 10, inside=APART)
    later = live(tmp_path / "later.vrt")
    time.sleep(2)
    assert process.ring().exists() and "still running" in first_line(process.trace)
    process.do("allocate()")
    left = process.ring()
    os.kill(process.child(), signal.SIGKILL)
    process.process.communicate()
    wait_until_gone(left, seconds=10)
    later.end()
    assert allocations(tmp_path / "x.vrt") == 11 and info(tmp_path / "x.vrt")["trace"]["state"] == "killed"


def test_killed_without_a_name_here(tmp_path):
    """Nobody adopts: still, what was recorded is read, and the report knows that the process does not run."""
    process = live(tmp_path / "x.vrt", 10, inside=APART)
    os.kill(process.child(), signal.SIGKILL)
    process.process.communicate()
    said = first_line(tmp_path / "x.vrt")
    assert "killed" in said and "still running" not in said and allocations(tmp_path / "x.vrt") == 10


FREEZERS = {"/sys/fs/cgroup/freezer/{}/freezer.state": ("THAWED", "FROZEN"), "/sys/fs/cgroup/{}/cgroup.freeze": ("0", "1")}


@pytest.fixture
def freezer():
    """A group of processes, and a function that freezes or thaws them."""
    for state in (pathlib.Path(file.format(f"vramtrace-{os.getpid()}")) for file in FREEZERS):
        if not (state.parent.parent / "cgroup.procs").exists():
            continue
        with contextlib.suppress(OSError):
            state.parent.mkdir()
        if state.exists():
            words = FREEZERS[str(state).replace(state.parent.name, "{}")]
            yield state.parent, lambda freeze, state=state, words=words: state.write_text(words[freeze])
            state.write_text(words[0])
            state.parent.rmdir()
            return
    pytest.skip("no cgroup freezer here")


def check_that_it_lives(tmp_path, halted, go_on):
    """What an adopter does meanwhile; then they go on and end."""
    other = killed(tmp_path / "other.vrt")
    later = live(tmp_path / "later.vrt")
    wait_until_gone(other)
    time.sleep(6)  # the next time that it looks
    for process in halted:
        assert process.ring().exists() and "still running" in first_line(process.trace)
    go_on()
    for process in (*halted, later):
        process.do("allocate()")
        process.end()
        assert allocations(process.trace) >= 2 and info(process.trace)["trace"]["complete"]


def test_who_is_stopped_lives(tmp_path):
    here, apart = [live(tmp_path / f"{number}.vrt", 10, inside=inside) for number, inside in enumerate(((), APART))]
    stopped = [here.process.pid, apart.child()]
    [os.kill(number, signal.SIGSTOP) for number in stopped]
    check_that_it_lives(tmp_path, (here, apart), lambda: [os.kill(number, signal.SIGCONT) for number in stopped])


def test_who_is_frozen_lives(tmp_path, freezer):
    frozen = live(tmp_path / "0.vrt", 10, inside=APART)
    group, freeze = freezer
    (group / "cgroup.procs").write_text(str(frozen.child()))
    freeze(True)
    check_that_it_lives(tmp_path, (frozen,), lambda: freeze(False))


def test_a_program_that_became_one_that_does_not_record(tmp_path):
    """The process lives on, under its number and with its start time: its ring is dead all the same."""
    process = live(tmp_path / "x.vrt", 10)
    ring = process.ring()
    process.process.stdin.write("os.environ.pop('LD_PRELOAD'), os.execvp('sleep', ['sleep', '60'])\n")
    process.process.stdin.flush()
    wait_until(lambda: pathlib.Path(f"/proc/{process.process.pid}/comm").read_text() == "sleep\n")
    assert str(process.trace) not in vramtrace("ctl").stdout and "killed" in first_line(process.trace)
    later = live(tmp_path / "later.vrt")
    wait_until_gone(ring)
    later.end()
    assert process.process.poll() is None
    assert allocations(tmp_path / "x.vrt") == 10 and info(tmp_path / "x.vrt")["trace"]["state"] == "killed"
    process.process.kill()
    process.process.communicate()


# Kills each thread that calls pwrite64 from now on, and no other.
SANDBOX = """
import struct
rules = b"".join(struct.pack("HBBI", *rule) for rule in ((0x20, 0, 0, 0), (0x15, 0, 1, 18), (6, 0, 0, 0), (6, 0, 0, 0x7FFF0000)))
held = ctypes.create_string_buffer(rules)
libc, program = ctypes.CDLL(None), struct.pack("HxxxxxxQ", len(rules) // 8, ctypes.addressof(held))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(317, 1, 1, program) == 0
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of a system call")
def test_whose_writer_a_sandbox_killed(tmp_path):
    """The process goes on with its ring, which nobody takes away; what it did until its end is adopted then."""
    process = live(tmp_path / "x.vrt", 10)
    process.do(f"exec({SANDBOX!r})")
    tasks = pathlib.Path(f"/proc/{process.process.pid}/task")
    process.do("allocate()")
    wait_until(lambda: len(list(tasks.iterdir())) == 1)
    later = live(tmp_path / "later.vrt")
    time.sleep(2)
    process.do("for _ in range(100): allocate()")
    ring = process.ring()
    assert ring.exists() and "still running" in first_line(process.trace)
    process.kill()
    wait_until_gone(ring, seconds=10)
    later.end()
    assert allocations(tmp_path / "x.vrt") == 111


@pytest.mark.parametrize("hidden", ["tmpfs", "folder"])
def test_a_trace_that_is_not_seen_here(tmp_path, hidden):
    """Killed where other file systems are mounted: the ring takes little memory, and after a day none."""
    folder = tmp_path / "inside"
    folder.mkdir()
    if hidden == "folder":
        (tmp_path / "behind").mkdir()
    mount = f"mount -t tmpfs tmpfs {folder}" if hidden == "tmpfs" else f"mount --bind {tmp_path}/behind {folder}"
    holder = subprocess.Popen(["unshare", "-m", "sh", "-c", f"{mount}; echo; exec sleep 600"], stdout=subprocess.PIPE)
    holder.stdout.readline()
    inside = ["nsenter", "-m", "-t", str(holder.pid)]
    seen_here = pathlib.Path(f"/proc/{holder.pid}/root")
    process = Live(folder / "x.vrt", inside=inside)
    process.do("for _ in range(1000): allocate()")
    process.trace = seen_here / str(folder / "x.vrt").lstrip("/")
    process.kill()
    ring = process.left
    before = ring.stat().st_blocks
    later = live(tmp_path / "later.vrt")
    wait_until(lambda: ring.stat().st_blocks < before / 4)
    later.end()
    assert ring.exists() and allocations(process.trace) == 1000
    later = live(tmp_path / "last.vrt", preloaded=BUILD / "tests/faults/old_files.so", OLD_FILES=str(ring))
    wait_until_gone(ring)
    later.end()
    holder.kill()
    holder.communicate()


@pytest.mark.parametrize("folder", ["/dev/shm/", "/proc/self/root/dev/shm"])
def test_the_own_ring_stays(tmp_path, folder):
    """Also where the same folder has two paths."""
    process = Live(tmp_path / "x.vrt", XDG_RUNTIME_DIR=folder)
    process.do("allocate()")
    time.sleep(1.5)
    process.do("for _ in range(10): allocate()")
    process.kill()
    assert process.left.exists()
    assert allocations(tmp_path / "x.vrt") == 11
    process.left.unlink()


DROP = "pid = os.fork()\nos.setgroups([]), os.setgid(1234), os.setuid(1234)\n"


@needs_root
def test_rings_of_the_living_stay_where_they_are_not_seen(tmp_path):
    """Processes that gave up root's rights are hidden from each other by such a /proc."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces").chmod(0o777)
    code = START.replace("context =", DROP + "context =", 1) + """
import time
allocate()
time.sleep(2)
print([line.split()[-1] for line in open("/proc/self/maps") if "/vramtrace." in line], flush=True)
pid and os.waitpid(pid, 0)
"""
    result = run(["unshare", "-m", "bash", "-c",
                  f'mount -t proc -o hidepid=2 proc /proc && mount --bind {tmp_path}/traces /mnt && exec "$@"',
         "bash", sys.executable, "-c", code], "/mnt/%p.vrt")
    assert result.stdout.count(".ring']") == 2 and "deleted" not in result.stdout, result.stdout


@pytest.mark.skipif(subprocess.run(["unshare", "-T", "true"], capture_output=True).returncode != 0,
                    reason="needs a time namespace of its own")
def test_rings_of_the_living_stay_where_the_clock_differs(tmp_path):
    """There each process began at another time."""
    process = live(tmp_path / "x.vrt")
    run(["unshare", "-T", "--boottime", "100000", sys.executable, "-c", START + "import time; allocate(); time.sleep(1.5)"],
        tmp_path / "later.vrt")
    assert process.ring().exists()
    process.do("for _ in range(10): allocate()")
    process.end()
    assert allocations(tmp_path / "x.vrt") == 11 and info(tmp_path / "x.vrt")["trace"]["complete"]


def test_who_says_that_it_began_later_lives(tmp_path):
    """As under qemu: what a process reads of its own start is some ticks after what others read. Whoever gets its number began later."""
    process = live(tmp_path / "x.vrt", 10)
    with process.ring().open("r+b") as ring:
        fcntl.flock(ring, fcntl.LOCK_EX)  # else a process of another test may adopt what seems to be dead
        for more, lives in ((-1, False), (3, True)):
            began, = struct.unpack("Q", os.pread(ring.fileno(), 8, RING_BEGAN))
            os.pwrite(ring.fileno(), struct.pack("Q", began + more), RING_BEGAN)
            assert (str(process.trace) in vramtrace("ctl").stdout) == lives
    live(tmp_path / "later.vrt").end()
    assert process.ring().exists()
    process.do("allocate()")
    process.end()
    assert allocations(tmp_path / "x.vrt") == 11 and info(tmp_path / "x.vrt")["trace"]["complete"]


@pytest.mark.parametrize("damage", ["head", "body", "cut", "positions"])
def test_a_damaged_ring_hurts_nobody(tmp_path, damage):
    ring = killed(tmp_path / "x.vrt", 300)
    data = bytearray(ring.read_bytes())
    if damage == "head":
        for slot in range(0, 400, 7):
            data[RING_HEADER_BYTES + slot * 64:RING_HEADER_BYTES + slot * 64 + 8] = struct.pack("<HBBI", 60000, 20, 1, 2**32 - 1)
    elif damage == "body":
        data[RING_HEADER_BYTES:RING_HEADER_BYTES + 400 * 64] = b"\xff" * 400 * 64
    elif damage == "positions":
        data[88:104] = struct.pack("<QQ", 2**63, 5)
    ring.write_bytes(data[:5000] if damage == "cut" else data)
    vramtrace("info", tmp_path / "x.vrt")
    later = live(tmp_path / "later.vrt", 10)
    time.sleep(2)
    later.do("allocate()")
    later.end()
    assert allocations(tmp_path / "later.vrt") == 11
    vramtrace("info", tmp_path / "x.vrt")
    ring.unlink(missing_ok=True)


def test_a_program_that_became_another(tmp_path):
    """exec: the process lives on, and adopts what its first program left."""
    code = START + "for _ in range(3): allocate()\n"
    second = code + "import time; time.sleep(3)\n"
    run([sys.executable, "-c", f"{code}\nos.execv(sys.executable, [sys.executable, '-c', {second!r}])"], tmp_path / "%p.vrt")
    traces = sorted(tmp_path.iterdir())
    assert len(traces) == 2
    assert [allocations(trace) for trace in traces] == [3, 3]
    assert sorted(info(trace)["trace"]["state"] for trace in traces) == ["complete", "killed"]


# ---- Traces that others change ----


@pytest.mark.parametrize("way", ["truncate", "remove", "replace"])
def test_others_change_the_trace(tmp_path, way):
    process = live(tmp_path / "x.vrt", 1000)
    deadline = time.monotonic() + 30
    while (seen := info(tmp_path / "x.vrt"))["trace"]["events_from_ring"] or allocations(tmp_path / "x.vrt") < 1000:
        assert time.monotonic() < deadline, seen["trace"]  # so far they are in the ring
        time.sleep(0.05)
    if way == "truncate":
        os.truncate(tmp_path / "x.vrt", 0)
    else:
        (tmp_path / "x.vrt").unlink()
    if way == "replace":
        (tmp_path / "x.vrt").write_text("precious")
    for _ in range(3):
        process.do("for _ in range(1000): allocate()")
        time.sleep(0.15)
    process.end()
    if way == "truncate":
        seen = info(tmp_path / "x.vrt")
        assert seen["trace"]["truncated"] and seen["trace"]["damaged_bytes"] > 0
        assert seen["counts"]["kinds"]["alloc"]["driver"] == 4000  # the chain's digest has those that were cut off, too
        assert "The file is damaged" in said(tmp_path / "x.vrt")
    elif way == "replace":
        assert (tmp_path / "x.vrt").read_text() == "precious"
    else:
        assert not (tmp_path / "x.vrt").exists()


def test_a_copy_of_another_process_is_not_made(tmp_path):
    first = live(tmp_path / "x.vrt", 10)
    (tmp_path / "x.vrt").rename(tmp_path / "moved.vrt")
    second = live(tmp_path / "x.vrt", 3)
    result = vramtrace("ctl", first.process.pid, "snapshot", tmp_path / "copy.vrt", check=False)
    assert result.returncode == 3 and "x.vrt: the trace file was moved or deleted" in result.stderr
    assert not (tmp_path / "copy.vrt").exists()
    first.end()
    second.end()


# ---- Folders ----


def with_memory(tmp_path, mount, code, **settings):
    """Runs code where /dev/shm is another one."""
    script = f'{mount} && exec "$@"'
    return run(["unshare", "-m", "bash", "-c", script, "bash", sys.executable, "-c", START + code], tmp_path / "x.vrt", check=False,
               **settings)


SHOW = """
import time
allocate()
print([line.split()[-1] for line in open("/proc/self/maps") if ".ring" in line])
"""
SIZES = [("1m", {}, 4 << 20, ""), ("32m", {}, 512 << 10, "/dev/shm"), ("32m", {"VRAMTRACE_RING": "4MiB"}, 4 << 20, "/dev/shm"),
         ("8m", {"VRAMTRACE_RING": "16MiB"}, 16 << 20, "")]


@needs_root
@pytest.mark.parametrize("size,settings,bytes_of_ring,folder", SIZES)
def test_small_memory(tmp_path, size, settings, bytes_of_ring, folder):
    result = with_memory(tmp_path, f"mount -t tmpfs -o size={size} tmpfs /dev/shm", SHOW,
                         XDG_RUNTIME_DIR="", **settings)
    assert result.returncode == 0, result.stderr
    assert ring_bytes(tmp_path / "x.vrt") == bytes_of_ring
    assert (folder in result.stdout) if folder else result.stdout.startswith("[]")
    assert info(tmp_path / "x.vrt")["trace"]["complete"]


@needs_root
@pytest.mark.parametrize("mount", ["mount -t tmpfs -o ro tmpfs /dev/shm", "mount --bind {} /dev/shm"])
def test_no_memory_to_share(tmp_path, mount):
    """A read-only one, a disk: private memory; a killed process loses a little then, and it is said."""
    (tmp_path / "disk").mkdir()
    result = with_memory(tmp_path, mount.format(tmp_path / "disk"), SHOW, XDG_RUNTIME_DIR="/nonexistent")
    assert result.returncode == 0 and result.stdout == "[]\n", result.stderr
    assert info(tmp_path / "x.vrt")["trace"]["complete"]
    assert list((tmp_path / "disk").iterdir()) == []
    (tmp_path / "x.vrt").unlink()
    result = with_memory(tmp_path, mount.format(tmp_path / "disk"), f"""
import time
for _ in range(50): allocate()
time.sleep({0.1 + DELAY_S})
for _ in range(50): allocate()
os.kill(os.getpid(), 9)""", XDG_RUNTIME_DIR="")
    assert result.returncode in (-9, 137)
    assert 50 <= allocations(tmp_path / "x.vrt") <= 100
    assert info(tmp_path / "x.vrt")["trace"]["ring_missing"] is True
    assert "The last 0.1 s may be missing" in said(tmp_path / "x.vrt")


@needs_root
def test_the_folder_of_the_session(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    result = with_memory(tmp_path, f"mount -t tmpfs -o ro tmpfs /dev/shm && mount -t tmpfs tmpfs {folder}", SHOW,
                         XDG_RUNTIME_DIR=str(folder))
    assert re.search(rf"{folder}/vramtrace\.\d+\.\d+\.[0-9a-f]{{16}}\.ring", result.stdout), result.stdout + result.stderr
