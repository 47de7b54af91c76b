#!/usr/bin/env python3
"""Runs each host (host_table.py) bare and with the recorder, and compares everything visible from outside.

    tests/faults/hosts/run.py                                   all, each with the number of runs in the table
    tests/faults/hosts/run.py --runs 1 NAME...                  some, by part of their name or kind
    tests/faults/hosts/run.py --markdown docs/results/hosts.md  the table as a page
    tests/faults/hosts/run.py --json FILE                       the same for programs to read
    tests/faults/hosts/run.py --minutes 20 --jobs 8             all at once, repeatedly, in random order

It compares exit status, output to both streams and to the host's folder, processes left running, time (median; two seconds
more are allowed), and figures that the host measured. A difference is what no bare run showed. Then it checks the
traces: all are readable, and hold what the host did (host.h).

Environment: VRAMTRACE_BUILD is the build folder.
"""
import argparse
import collections
import concurrent.futures
import ctypes
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
from helpers import BUILD, ENVIRONMENT, LIBRARY, made_here  # noqa: E402
from helpers import PROGRAM as ANALYZER  # noqa: E402
from host_table import table  # noqa: E402

STANDIN = BUILD / "simulate"
SLOT = struct.Struct("<iiQQ")
SLOTS = 8192
RING_HEADER_BYTES = 65536  # of ring.h
MORE_SECONDS = 2.0
GOODBYE = re.compile("^vramtrace: peak [^\n]* · vramtrace (?:report|oom) [^\n]*\n".encode(), re.M)
OURS = re.compile(rb"^vramtrace: [^\n]*\n", re.M)
PR_SET_CHILD_SUBREAPER = 36
BY_RUN = bool(os.environ.get("VRAMTRACE_HOSTS_BY_RUN"))  # not by LD_PRELOAD, but by `vramtrace run`, which prints one line


def lacks(host):
    """The first missing requirement of the host, or ""."""
    for need in host.needs:
        what, _, name = need.partition(":")
        if need == "root":
            if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
                return "root"
        elif need == "others":
            if not all(folder.stat().st_mode & 1 for folder in [BUILD, *BUILD.resolve().parents]):
                return "a build folder that other users may enter"
        elif what == "python":
            if subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode:
                return need
        elif what == "file":
            if not os.path.exists(fill(name, {})):
                return need
        elif shutil.which(need) is None:
            return need
    return ""


def fill(text, places):
    for name, value in {"bin": BUILD / "tests/faults/hosts", "here": HERE, "python": sys.executable, "build": BUILD,
                        "cache": cache(), "libpython": libpython(), "prefix": sys.base_prefix, **places}.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def cache():
    return os.environ.get("VRAMTRACE_CACHE", os.path.expanduser("~/.cache/vramtrace"))


@functools.cache
def libpython():
    """The interpreter's shared library, if it has one."""
    return os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("LDLIBRARY") or "none")


class Seen:
    """The observations of one run."""

    def __init__(self):
        self.ended = self.stdout = self.stderr = self.left = ""
        self.files = {}
        self.seconds = 0.0
        self.measures = {}
        self.trace_problems = []

    def compared(self):
        return {"end": self.ended, "stdout": self.stdout, "stderr": self.stderr, "left running": self.left,
                **{f"file {name}": content for name, content in self.files.items()}}


def environment(host, places, preload):
    plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TERM") if name in os.environ}
    plain.update(TMPDIR=str(places["work"]), LD_LIBRARY_PATH=str(STANDIN), HOST_BOOK=str(places["run"] / "book"))
    recorder = {"recorder": LIBRARY if preload else ""}
    plain.update({name: fill(value, {**places, **recorder}).rstrip(":") for name, value in host.env.items()})
    if preload:
        others = plain.get("LD_PRELOAD", "")
        if BY_RUN:
            plain["VRAMTRACE_LIBRARY"] = str(LIBRARY)
        else:
            plain["LD_PRELOAD"] = others if str(LIBRARY) in others else f"{LIBRARY}:{others}".rstrip(":")
        plain["VRAMTRACE_OUT"] = str(places["trace"] / "%p.vrt")
        plain.update({name: fill(value, places) for name, value in host.recorder_env.items()})
    return plain


def descendants():
    """Our live child processes; as a subreaper we inherit orphans."""
    children = []
    for task in os.listdir("/proc/self/task"):
        try:
            children += pathlib.Path(f"/proc/self/task/{task}/children").read_text().split()
        except OSError:
            pass
    return [int(child) for child in children]


def wait_for_all(first, until):
    """The status of process `first`, and the processes still running at the deadline."""
    ended, left = None, []
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if process == first:
            ended = status
        elif process == 0:
            if time.monotonic() > until:
                left = descendants()
                break
            time.sleep(0.002)
    for process in left:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            pass
    while left and descendants():
        for process in descendants():
            try:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
    return ended, left


def says_status(status):
    if status is None:
        return "did not end"
    if os.WIFSIGNALED(status):
        return f"signal {signal.Signals(os.WTERMSIG(status)).name}"
    return f"status {os.WEXITSTATUS(status)}"


def content_of(path):
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    mode = path.stat().st_mode
    if path.is_dir():
        return f"folder {mode & 0o7777:o}"
    if not path.is_file():
        return f"type {mode:o}"
    return f"{mode & 0o7777:o} " + path.read_bytes().decode("utf-8", "backslashreplace")


class Stream:
    """A pipe that is read continuously: a file would fall under the hosts' limits, and a full pipe would block them."""

    def __init__(self):
        self.parts = []
        self.end, self.into = os.pipe()
        self.thread = threading.Thread(target=self.collect, daemon=True)
        self.thread.start()

    def collect(self):
        while part := os.read(self.end, 1 << 16):
            self.parts.append(part)

    def read(self):
        """Everything, after all writers have closed the pipe."""
        self.thread.join(5)
        os.close(self.end)
        return b"".join(self.parts)


def run_once(host, folder, preload, timeout_s):
    places = {"run": folder, "work": folder / "work", "trace": folder / "trace"}
    for name in ("work", "trace"):
        places[name].mkdir(parents=True)
    folder.chmod(0o755)
    (folder / "book").write_bytes(bytes(SLOTS * SLOT.size))
    (folder / "book").chmod(0o666)
    plain = environment(host, places, False)
    if host.prepare:
        subprocess.run(fill(host.prepare, places), shell=True, cwd=places["work"], env=plain, check=True)
    command = [fill(str(part), places) for part in host.command]
    if preload and BY_RUN:
        command = [str(ANALYZER), "run", "--", *command]
    seen, started = Seen(), time.monotonic()
    streams = {"stdout": Stream(), "stderr": Stream()}
    process = subprocess.Popen(command, cwd=places["work"], env=environment(host, places, preload),
                               stdin=subprocess.DEVNULL, stdout=streams["stdout"].into, stderr=streams["stderr"].into,
                               start_new_session=True)
    for stream in streams.values():
        os.close(stream.into)
    ended, left = wait_for_all(process.pid, started + timeout_s)
    process.returncode = 0  # wait_for_all reaped it
    seen.seconds = time.monotonic() - started
    seen.ended = says_status(ended)
    seen.left = f"{len(left)} processes" if left else ""
    said = {name: stream.read() for name, stream in streams.items()}
    for name, text in said.items():
        (folder / name).write_bytes(text)
    read_streams(host, said, seen)
    for path in sorted(places["work"].rglob("*")):
        name = str(path.relative_to(places["work"]))
        if not (preload and any(re.fullmatch(pattern, name) for pattern in host.files)):
            seen.files[name] = masked(host, content_of(path))
    if preload:
        check_traces(host, folder, places, seen)
    return seen


def read_streams(host, streams, seen):
    raw = streams["stderr"]
    seen.raw_stderr = raw
    if BY_RUN:
        raw = OURS.sub(b"", raw, count=1)
    elif host.stderr == "line":
        raw = GOODBYE.sub(b"", raw)
        if host.trace == "reported":
            raw = OURS.sub(b"", raw, count=1)
    seen.stderr = masked(host, raw.decode("utf-8", "backslashreplace"))
    lines = []
    for line in streams["stdout"].decode("utf-8", "backslashreplace").splitlines(keepends=True):
        if line.startswith("measure "):
            _, name, value, allowed = line.split()
            seen.measures[name] = (float(value), float(allowed))
        else:
            lines.append(line)
    seen.stdout = masked(host, "".join(lines))


def masked(host, text):
    for pattern in host.mask:
        text = re.sub(pattern, "", text)
    return text


def read_book(path):
    """Calls begun and completed, by process."""
    begun, done = collections.Counter(), collections.Counter()
    raw = path.read_bytes()
    for slot in range(SLOTS):
        process, _, began, did = SLOT.unpack_from(raw, slot * SLOT.size)
        if process and began:
            begun[process] += began
            done[process] += did
    return begun, done


def check_traces(host, folder, places, seen):
    problems = seen.trace_problems
    if host.trace == "any":
        return
    traces = [path for path in folder.rglob("*.vrt") if path.is_file() and not path.is_symlink()]
    recorded, lost, disk_bytes = collections.Counter(), collections.Counter(), 0
    for path in sorted(traces):
        if path.read_bytes()[:5] == b"kept\n":
            continue
        answer = subprocess.run([ANALYZER, "info", "--json", path], capture_output=True, text=True)
        if answer.returncode:
            if "empty" not in answer.stderr:
                why = answer.stderr.strip().rpartition(": ")[2]
                problems.append(f"a trace cannot be read, and is not reported as empty: {why}")
            continue
        info = json.loads(answer.stdout)
        kinds = info["counts"]["kinds"]
        process = info["trace"]["pid"]
        recorded[process] += sum(kinds.get(kind, {}).get(layer, 0) for kind in ("alloc", "free")
                                 for layer in ("driver", "framework"))
        lost[process] += info["trace"]["dropped"] + info["trace"]["events_after_end"]
        if info["trace"]["damaged_bytes"]:
            problems.append(f"{info['trace']['damaged_bytes']} bytes of a trace are damaged")
        disk_bytes += info["trace"]["disk_bytes"]
    begun, done = read_book(folder / "book")
    if host.trace == "none":
        if traces:
            problems.append(f"{len(traces)} traces; none expected")
        return
    if host.trace == "sum":
        recorded, lost, begun, done = ({0: sum(each.values())} for each in (recorded, lost, begun, done))
    said = host.trace == "silent" or (host.trace == "reported" and OURS.search(seen.raw_stderr))
    for process in sorted(set(begun) | set(recorded)):
        if recorded[process] > begun[process]:
            problems.append(f"{recorded[process]} events recorded for {begun[process]} calls")
        if recorded[process] + lost[process] < done[process] and not said:
            problems.append(f"{recorded[process]} of {done[process]} calls recorded, {lost[process]} reported as lost")
    if host.bytes_per_event and disk_bytes > host.bytes_per_event * sum(done.values()) + 65536:
        problems.append(f"{disk_bytes / max(1, sum(done.values())):.0f} bytes of trace per event "
                        f"(limit {host.bytes_per_event:.0f})")


def short(text, limit=160):
    text = re.sub(r"(.)\1{19,}", lambda found: found[0][:3] + "…", text)
    text = text if len(text) <= limit else text[:limit] + " …"
    return text.replace("\n", " ⏎ ")


def first_difference(bare, preloaded):
    """The first line that differs, shortened."""
    one, other = bare.splitlines(), preloaded.splitlines()
    for left, right in zip(one, other):
        if left != right:
            same = len(os.path.commonprefix([left, right]))
            if same > 100:  # only the text around the difference
                left, right = "… " + left[same - 20:], "… " + right[same - 20:]
            return f"bare “{short(left)}”, preloaded “{short(right)}”"
    if len(one) < len(other):
        return f"preloaded has more: “{short(chr(10).join(other[len(one):]))}”"
    return f"preloaded lacks “{short(chr(10).join(one[len(other):]))}”"


def compare(bare_runs, preloaded_runs):
    """The differences, as sentences."""
    found = collections.Counter()
    for run in preloaded_runs:
        observed = run.compared()
        fields = set(observed) | set().union(*(bare.compared() for bare in bare_runs))
        for field in sorted(fields):
            values = [bare.compared().get(field, "not there") for bare in bare_runs]
            value = observed.get(field, "not there")
            if value not in values:
                found[re.sub(r"\d{3,}", "…", field) + f": {first_difference(values[0], value)}"] += 1
        for problem in dict.fromkeys(run.trace_problems):
            found[f"trace: {problem}"] += 1
    names = {name for run in bare_runs + preloaded_runs for name in run.measures}
    for name in sorted(names):
        bare = [run.measures[name] for run in bare_runs if name in run.measures]
        recorder = [run.measures[name] for run in preloaded_runs if name in run.measures]
        if not bare or not recorder:
            continue
        allowed = bare[0][1]
        before, after = (statistics.median(value for value, _ in part) for part in (bare, recorder))
        if (after - before > allowed) if allowed > 0 else (after - before < allowed):
            found[f"{name}: bare {before:g}, preloaded {after:g} (allowed {allowed:+g})"] += len(recorder)
    before = statistics.median(run.seconds for run in bare_runs)
    after = statistics.median(run.seconds for run in preloaded_runs)
    if after > before + MORE_SECONDS * max(1, os.getloadavg()[0] / os.cpu_count()):  # others' processes go first on a busy machine
        found[f"time: bare {before:.1f} s, preloaded {after:.1f} s"] += len(preloaded_runs)
    return counted(found, len(preloaded_runs))


def counted(found, runs):
    """The sentences, without repeats that differ only in paths and numbers."""
    texts, counts = {}, collections.Counter()
    for text, count in found.items():
        text = re.sub(re.escape(tempfile.gettempdir()) + r"/hosts\.\w+/\w+/", "", text)
        key = re.sub(r"\d+", "#", text)
        texts.setdefault(key, text)
        counts[key] += count
    return [text if counts[key] >= runs else f"{text} ({counts[key]} of {runs} runs)" for key, text in texts.items()]


def says(runs):
    """The exit statuses and the median time, for the table."""
    ends = collections.Counter(run.ended for run in runs)
    seconds = statistics.median(run.seconds for run in runs)
    ends = [end if count == len(runs) else f"{count}× {end}" for end, count in ends.items()]
    return ", ".join([*ends, f"{seconds:.2f} s"])


def try_host(host, runs, keep=None):
    """Alternates bare and preloaded runs. Their files are deleted, or kept in a folder per host in KEEP."""
    with tempfile.TemporaryDirectory(prefix="hosts.") as folder:
        os.chmod(folder, 0o755)
        if keep:
            return try_in(host, runs, keep / re.sub(r"[^\w]+", "_", f"{host.kind} {host.name}"))
        result = try_in(host, runs, pathlib.Path(folder))
        remove_rings(folder)
        return result


def remove_rings(folder):
    """What is left of processes that ended without handlers, whose traces are in the folder."""
    for ring in pathlib.Path("/dev/shm").glob("vramtrace.*.ring"):
        try:
            with open(ring, "rb") as file:
                if os.fsencode(f"{folder}/") in file.read(RING_HEADER_BYTES):
                    ring.unlink()
        except OSError:
            pass  # another process adopts it


def try_in(host, runs, folder):
    result = {"name": host.name, "kind": host.kind, "runs": runs, "known": host.known, "bare": "", "preloaded": "",
              "differences": [], "missing": lacks(host), "unsteady": [], "unsound": ""}
    if result["missing"]:
        return result
    bare, preloaded = [], []
    for number in range(runs):
        bare.append(run_once(host, folder / f"bare{number}", False, host.timeout_s))
        preloaded.append(run_once(host, folder / f"preloaded{number}", True, bare[-1].seconds + MORE_SECONDS + 8))
    result.update(bare=says(bare), preloaded=says(preloaded), differences=compare(bare, preloaded))
    for run in bare:
        if run.ended != host.ends:
            result["unsound"] = (f"bare it ended with {run.ended}, expected {host.ends}: "
                                 f"{short(run.stdout + run.stderr)}")
    first = bare[0].compared()
    result["unsteady"] = sorted({field for run in bare for field, value in run.compared().items()
                                 if first.get(field) != value})
    return result


def run_apart(host, runs, more_seconds=MORE_SECONDS):
    """The same in a separate process, which inherits the processes that a host leaves behind."""
    with tempfile.TemporaryDirectory(prefix="hosts.") as folder:
        result = pathlib.Path(folder) / "result.json"
        done = subprocess.run([sys.executable, HERE / "run.py", "--exact", "--runs", str(runs), "--json", result,
                               "--more-seconds", str(more_seconds), f"{host.kind}/{host.name}"],
                              capture_output=True, text=True, env=ENVIRONMENT)
        if not result.exists():
            raise RuntimeError(done.stdout + done.stderr)
        return json.loads(result.read_text())[0]


def cell(text):
    text = text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
    return re.sub(r"[\x00-\x1f\x7f]", lambda control: f"\\x{ord(control[0]):02x}", text)


def markdown(results):
    tried = [result for result in results if not result["missing"]]
    differ = [result for result in tried if result["differences"] and not result["known"]]
    shows = (f"{len(tried)} hosts in {len({result['kind'] for result in tried})} kinds, "
             f"{sum(result['runs'] for result in tried)} runs bare and as many with the recorder: "
             f"{len(differ)} {'host differs' if len(differ) == 1 else 'hosts differ'}")
    text = [made_here(shows, "tests/faults/hosts/run.py --markdown docs/results/hosts.md"),
            "In names of hosts, \"first\" and \"before\" mean before the host begins to use CUDA, \"after\" means later. "
            "[reliability.md](../reliability.md) says what is compared."]
    kind = None
    for result in results:
        if result["kind"] != kind:
            kind = result["kind"]
            text += ["", f"## {kind[0].upper()}{kind[1:]}", "", "| host | runs | bare | preloaded | differences |",
                     "|---|---|---|---|---|"]
        if result["missing"]:
            text.append(f"| {cell(result['name'])} | 0 | | | not run here: needs {result['missing']} |")
            continue
        differences = "<br>".join(cell(part) for part in result["differences"]) or "none"
        if result["known"] and result["differences"]:
            differences = "known: " + cell(result["known"])
        text.append("| " + " | ".join([cell(result["name"]), str(result["runs"]), result["bare"], result["preloaded"],
                                       differences]) + " |")
    return "\n".join(text) + "\n"


def print_result(result):
    """Prints the result of a host; returns true if it failed."""
    bad = bool((result["differences"] and not result["known"]) or result["unsound"])
    word = ("MISSING" if result["missing"] else "UNSOUND" if result["unsound"] else "DIFFERS" if bad else
            "known" if result["differences"] else "same")
    print(f"{word:8} {result['kind']}: {result['name']} {result['missing']}", flush=True)
    for part in [*result["differences"], *filter(None, [result["unsound"]])]:
        print(f"         {part}")
    if result["unsteady"]:
        print(f"         bare runs differ from each other in {', '.join(result['unsteady'])}")
    return bad


def again_and_again(hosts, minutes):
    end = time.monotonic() + minutes * 60
    while time.monotonic() < end:
        for host in random.sample(hosts, len(hosts)):
            if time.monotonic() < end:
                yield host


def soak(hosts, options):
    """Counts runs and prints differences. Time is not compared, since many run at once; none may hang."""
    runs, wrong, results, waiting = 0, 0, [], set()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as team:
        for host in again_and_again(hosts, options.minutes):
            waiting.add(team.submit(run_apart, host, 1, 60))
            while len(waiting) >= options.jobs:
                done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
                results += [future.result() for future in done]
        results += [future.result() for future in waiting]
    for result in results:
        runs += not result["missing"]
        if (result["differences"] and not result["known"]) or result["unsound"]:
            wrong += print_result(result)
    print(f"{wrong} of {runs} runs under the recorder differ from their bare runs")
    return 1 if wrong else 0


def main():
    global MORE_SECONDS
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of names or kinds; none: all")
    parser.add_argument("--runs", type=int, help="number of runs, instead of the table's")
    parser.add_argument("--quick", action="store_true", help="leave out the slow ones")
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for all files of the runs")
    parser.add_argument("--jobs", type=int, default=1, help="number of concurrent hosts")
    parser.add_argument("--minutes", type=float, help="repeat for this time; print only differences")
    parser.add_argument("--more-seconds", type=float, default=MORE_SECONDS, help="allowed extra time of a preloaded run")
    parser.add_argument("--exact", action="store_true", help="names are complete: KIND/NAME")
    options = parser.parse_args()
    MORE_SECONDS = options.more_seconds
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup ignores it, and hosts would inherit that
    hosts = [host for host in table() if not options.names or
             any(name == f"{host.kind}/{host.name}" if options.exact else name in f"{host.kind}/{host.name}"
                 for name in options.names)]
    if options.quick:
        hosts = [host for host in hosts if not host.slow]
    if not hosts:
        sys.exit(f"run.py: no host matches {' '.join(options.names)}")
    if options.minutes:
        return soak(hosts, options)
    results, wrong = [], 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as team:
        for result in team.map(lambda host: run_apart(host, options.runs or host.runs) if options.jobs > 1 else
                               try_host(host, options.runs or host.runs, options.keep), hosts):
            results.append(result)
            wrong += print_result(result)
    if options.markdown:
        options.markdown.write_text(markdown(results))
    if options.json:
        options.json.write_text(json.dumps(results, indent=1, ensure_ascii=False))
    print(f"{wrong} of {len(results)} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
