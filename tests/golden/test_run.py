"""`vramtrace run`: what it refuses before the program starts, how it runs Python, its last line, and that nobody notices it."""
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

from harness import ANALYZER, LIBRARIES, PROGRAMS, STANDIN

CUDA = """import ctypes, os, signal, sys, time
cuda, own = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL(None)
def allocate(size):
    address = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
def begin():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
    assert allocate(3 << 20) == 0
def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture(autouse=True)
def signals_at_their_defaults():
    """What starts these tests may ignore some (nohup, a shell's &), and programs inherit that."""
    ignored = [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN]
    mine = [number for number in ignored if number not in (signal.SIGPIPE, signal.SIGXFSZ)]  # Python's own
    for number in mine:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in mine:
        signal.signal(number, signal.SIG_IGN)


def environment(**settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("VRAMTRACE_", "LD_PRELOAD", "RANK"))}
    # Tests run on busy machines: a line that comes late is a good line here.
    return {**kept, "LD_LIBRARY_PATH": str(STANDIN), "VRAMTRACE_LIBRARY": str(LIBRARIES["trace"]), "LC_ALL": "C.UTF-8",
            "VRAMTRACE_LAST_LINE_MS": "60000", **settings}


def run(*words, cwd, **settings):
    return subprocess.run([str(ANALYZER), "run", *map(str, words)], cwd=cwd, env=environment(**settings), capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL)


def start(*words, cwd, settings=None, **more):
    return subprocess.Popen([str(ANALYZER), "run", *map(str, words)], cwd=cwd, env=environment(**(settings or {})),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def python(code):
    return [sys.executable, "-c", CUDA + code]


def info(trace):
    return json.loads(subprocess.run([ANALYZER, "info", "--json", trace], capture_output=True, check=True).stdout)


# ---- Before the program starts ----


@pytest.mark.parametrize("setting, value, allowed", [
    ("mode", "fast", "full or flight"), ("limit", "lots", "1MiB or more"), ("limit", "12", "1MiB or more"), ("limit", "-1", "1MiB"),
    ("ring", "1KiB", "256KiB to 1GiB"), ("ring", "2GiB", "256KiB to 1GiB"), ("start", "step:0", "now, manual or step:NUMBER"),
    ("start", "soon", "now, manual or step:NUMBER"), ("quiet", "perhaps", "0 or 1"), ("native-stacks", "2", "0 or 1")])
def test_a_wrong_setting_is_refused_at_once(setting, value, allowed, tmp_path):
    variable = "VRAMTRACE_" + setting.upper().replace("-", "_")
    for name, result in ((f"--{setting}", run(f"--{setting}={value}", "touch", "started", cwd=tmp_path)),
                         (variable, run("touch", "started", cwd=tmp_path, **{variable: value}))):
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith(f"vramtrace run: {name} takes {allowed}") and result.stderr.endswith(f", not '{value}'\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["--mode", "FLIGHT", "--limit", "1GiB"], ["--limit", "none"], ["--ring=256k"], ["--start", "Step:7"],
                                   ["--quiet", "no"], ["--inspect", "off", "--nvml=1"]])
def test_what_is_allowed(words, tmp_path):
    """As the recorder understands it: it complains of nothing."""
    result = run(*words, "-o", "x.vrt", *python("begin()"), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "vramtrace: peak 3 MiB on GPU 0 · vramtrace report x.vrt\n")


@pytest.mark.parametrize("words", [["--mode="], ["--mode"], ["-m"]])
def test_a_missing_value(words, tmp_path):
    result = run(*words, cwd=tmp_path)
    assert result.returncode == 2 and "needs a value" in result.stderr and result.stderr.count("\n") == 1


def test_a_folder_that_cannot_be_written(tmp_path):
    """The same with -o, with the variable, and with neither. Not as root, who may write everywhere."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        for path in (ANALYZER, LIBRARIES["trace"]):
            shutil.copy(path, place)
        (place / "closed").mkdir(0o555)
        place.chmod(0o755)
        settings = environment(VRAMTRACE_LIBRARY=str(place / LIBRARIES["trace"].name))
        for words, more, begin in ((["-o", "x.vrt"], {}, "-o x.vrt: "), (["-o", "./"], {}, "-o ./: "), ([], {}, ""),
                                   ([], {"VRAMTRACE_OUT": "%p.vrt"}, "VRAMTRACE_OUT=%p.vrt: ")):
            result = subprocess.run([place / ANALYZER.name, "run", *words, "echo", "started"], cwd=place / "closed",
                                    env={**settings, **more}, capture_output=True, text=True,
                                    user=65534 if os.geteuid() == 0 else None)
            assert (result.returncode, result.stdout) == (4, "")
            assert result.stderr.startswith(f"vramtrace run: {begin}cannot write in {place / 'closed'}")
            assert result.stderr.endswith(": Permission denied; -o FOLDER/ puts traces elsewhere\n")
        result = subprocess.run([place / ANALYZER.name, "run", "-o", "new/", "echo", "started"], cwd=place / "closed", env=settings,
                                capture_output=True, text=True, user=65534 if os.geteuid() == 0 else None)
        assert (result.returncode, result.stdout) == (4, "")
        assert result.stderr == "vramtrace run: -o new/: cannot make it: Permission denied; -o FOLDER/ puts traces elsewhere\n"
        result = subprocess.run([place / ANALYZER.name, "run", "--enable", "0", "echo", "started"], cwd=place / "closed", env=settings,
                                capture_output=True, text=True, user=65534 if os.geteuid() == 0 else None)
        assert (result.returncode, result.stdout, result.stderr) == (0, "started\n", "")


def test_no_trace_can_be_there(tmp_path):
    result = run("-o", "/dev/null", "touch", "started", cwd=tmp_path)
    assert result.returncode == 4 and "/dev/null: it is neither a folder nor a regular file" in result.stderr
    result = run("-o", "x" * 5000, "touch", "started", cwd=tmp_path)
    assert result.returncode == 2 and "longer than 4095 bytes" in result.stderr
    assert not list(tmp_path.iterdir())


# ---- Python ----

WHO = "import sys; print(sys.argv[0], *sys.argv[1:], sys.executable)"


def test_scripts_and_modules(tmp_path):
    (tmp_path / "who.py").write_text(WHO)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text(WHO)
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    python_there = shutil.which("python", path=path) or shutil.which("python3", path=path)
    for words, shown in ((["who.py", "a b", "-m"], "who.py a b -m"), (["--quiet", "--", "who.py"], "who.py"), (["./who.py"], "./who.py"),
                         (["-m", "package", "--quiet"], f"{tmp_path}/package/__main__.py --quiet"),
                         (["-o", "x.vrt", "-m", "package"], f"{tmp_path}/package/__main__.py")):
        assert run(*words, cwd=tmp_path, PATH=path).stdout == f"{shown} {python_there}\n"


def test_which_runs(tmp_path):
    """A script that names its interpreter, and programs that are called as a script is."""
    folders = [tmp_path / name for name in ("first", "second", "work")]
    for folder in folders:
        folder.mkdir()

    def program(path, text):
        path.write_text(f"#!/bin/sh\necho {text} \"$@\"\n")
        path.chmod(0o755)

    first, second, work = folders
    path = f"{first}:{second}:/usr/bin:/bin"
    program(second / "python3", "python3 of second")
    program(work / "job.py", "job by itself")
    program(first / "tool.py", "tool of PATH")
    (work / "train.py").write_text("")
    shown = {word: run(word, cwd=work, PATH=path).stdout for word in ("job.py", "./job.py", "tool.py", "train.py")}
    assert shown == {"job.py": "python3 of second job.py\n", "./job.py": "job by itself\n", "tool.py": "tool of PATH\n",
                     "train.py": "python3 of second train.py\n"}
    program(second / "python", "python of second")  # before python3, as in a virtual environment
    assert run("train.py", cwd=work, PATH=path).stdout == "python of second train.py\n"
    program(work / "mine", "mine")
    for word in ("train.py", "./job.py"):
        assert run(word, cwd=work, PATH=path, VRAMTRACE_INTERPRETER=str(work / "mine")).stdout == f"mine {word}\n"
    assert run("none.py", cwd=work, PATH=path).returncode == 127
    result = run("train.py", cwd=work, PATH=str(work))
    assert result.returncode == 127 and "neither python nor python3 is in PATH" in result.stderr


def test_python_of_the_environment_that_it_is_called_from(tmp_path):
    for name in ("bin", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "python").chmod(0o755)
    shutil.copy(ANALYZER, tmp_path / "bin" / "vramtrace")
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "x.py").touch()
    for program, path, python_there in (("bin/vramtrace", "elsewhere", "bin"), ("vramtrace", "bin", "bin"),
                                        ("vramtrace", "elsewhere:bin", "elsewhere")):
        settings = environment(PATH=":".join(str(tmp_path / name) for name in path.split(":")) + ":/usr/bin:/bin")
        shown = subprocess.run(["sh", "-c", f"{program} run x.py"], cwd=tmp_path, env=settings, capture_output=True, text=True)
        assert shown.stdout == f"{python_there}\n"


# ---- The last line ----

LEAK = """
begin()
for step in range(20):
    own.vramtrace_mark(b"vramtrace.step")
    assert allocate(2 << 20) == 0
"""
OUT_OF_MEMORY = "begin()\nassert allocate(1 << 45)\n"


@pytest.mark.parametrize("code, status, line", [
    ("begin()", 0, "peak 3 MiB on GPU 0 · vramtrace report x.vrt"),
    ("", 0, "no CUDA call was seen: no trace"),
    ("begin(); sys.exit(3)", 3, "peak 3 MiB on GPU 0 · vramtrace report x.vrt"),
    (LEAK, 0, "leak: +2 MiB per step · vramtrace leaks x.vrt"),
    (OUT_OF_MEMORY + "sys.exit(1)", 1, "OUT OF MEMORY: 32 TiB needed"),
    (OUT_OF_MEMORY, 0, "out of memory (caught): 32 TiB needed"),
    (OUT_OF_MEMORY + "allocate(1 << 20); sys.exit(1)", 1, "out of memory: 32 TiB needed"),
    ("begin(); os.kill(os.getpid(), signal.SIGKILL)", -9, "killed by SIGKILL · peak 3 MiB on GPU 0 · vramtrace report x.vrt"),
    ("begin(); os.abort()", -6, "killed by SIGABRT · peak 3 MiB on GPU 0 · vramtrace report x.vrt"),
    ("begin(); os.kill(os.getpid(), signal.SIGRTMIN + 3)", -signal.SIGRTMIN - 3, "killed by signal 37 · peak 3 MiB"),
    ("begin(); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -2,
     "interrupted (SIGINT) · peak 3 MiB on GPU 0 · vramtrace report x.vrt"),
    ("os.kill(os.getpid(), signal.SIGTERM)", -15, "killed by SIGTERM · no CUDA call was seen: no trace")])
def test_the_last_line(code, status, line, tmp_path):
    result = run("-o", "x.vrt", *python(code), cwd=tmp_path)
    ours = [said for said in result.stderr.splitlines() if said.startswith("vramtrace")]
    assert result.returncode == status and len(ours) == 1 and result.stderr.splitlines()[-1] == ours[0], result.stderr
    assert ours[0].startswith(f"vramtrace: {line}"), result.stderr
    if "needed" in line:
        assert ours[0].endswith(" · vramtrace oom x.vrt")


def test_a_step_in_which_memory_ran_out(tmp_path):
    """The mark of a step is its end, and begins the next one; the stand-in has 80 GiB."""
    code = """
for step in range(4):
    if not step: begin()
    if step == 3: assert allocate(1 << 45)
    own.vramtrace_mark(b"vramtrace.step")
sys.exit(1)"""
    line = run("-o", "x.vrt", *python(code), cwd=tmp_path).stderr
    assert line.startswith("vramtrace: OUT OF MEMORY at step 3: 32 TiB needed, 79.") and " GiB free · vramtrace oom x.vrt" in line


def test_what_is_said_without_patience(tmp_path):
    """As the recorder counted it: what a report would say takes too long."""
    result = run("-o", "x.vrt", *python(LEAK), cwd=tmp_path, VRAMTRACE_LAST_LINE_MS="0")
    assert result.stderr == "vramtrace: peak 43 MiB on GPU 0 · vramtrace report x.vrt\n"


def test_names_as_the_user_would_type_them(tmp_path):
    (tmp_path / "a b").mkdir()
    assert run(*python("begin()"), cwd=tmp_path).stderr.split(" · ")[1].startswith("vramtrace report vramtrace.")
    assert run("-o", "traces/", *python("begin()"), cwd=tmp_path).stderr.split(" · ")[1].startswith("vramtrace report traces/vramtrace.")
    result = run("-o", tmp_path / "x.vrt", *python("os.chdir('/'); begin()"), cwd=tmp_path / "a b")
    assert result.stderr.endswith(f" · vramtrace report {tmp_path}/x.vrt\n")
    result = run("-o", tmp_path / "x.vrt", *python("begin()"), cwd=tmp_path)
    assert result.stderr.endswith(" · vramtrace report x.1.vrt\n")


def test_children(tmp_path):
    """Of all of them one line, whoever of them used CUDA."""
    program = PROGRAMS / "way_linked"
    one = run("-o", "x.vrt", "sh", "-c", f"{program}; true", cwd=tmp_path)
    assert one.stderr == "vramtrace: peak 6.00 MiB on GPU 0 · vramtrace report x.vrt\n"
    several = run("-o", "traces/", "sh", "-c", f"{program}; {program} & wait; exit 5", cwd=tmp_path)
    assert several.returncode == 5 and several.stderr == "vramtrace: 2 traces in traces/ · vramtrace report traces/\n"
    ranks = run("-o", "job/", "sh", "-c", f"for RANK in 0 1; do export RANK; '{ANALYZER}' run {program}; done", cwd=tmp_path)
    assert ranks.stderr == "vramtrace: 2 traces in job/ · vramtrace report job/\n"  # those inside leave it to the outer one
    of_one = run("-o", "job/", program, cwd=tmp_path, RANK="2")
    assert of_one.stderr == "vramtrace: peak 6.00 MiB on GPU 0 · vramtrace report job/\n"
    unasked = run("sh", "-c", "exit 0", cwd=tmp_path)
    assert unasked.stderr == "vramtrace: no CUDA call was seen: no trace\n"


def test_what_was_explained_is_not_explained_again(tmp_path):
    """No command; a trace that cannot be made after all."""
    assert run("./none", cwd=tmp_path).stderr == "vramtrace run: cannot run ./none: No such file or directory\n"
    result = run("-o", f"{tmp_path}/%p/x.vrt", *python("begin()"), cwd=tmp_path)
    assert result.returncode == 0 and result.stderr.startswith("vramtrace: not recording: ") and result.stderr.count("\n") == 1


def test_recording_that_stopped(tmp_path):
    code = "begin()\nfor size in range(1, 300000): cuda.cuMemFree_v2(ctypes.c_uint64(0)); allocate(1 + size * 7919 % (1 << 16))"
    result = run("--limit", "1MiB", "-o", "x.vrt", *python(code), cwd=tmp_path)
    assert result.returncode == 0 and result.stderr.startswith("vramtrace: incomplete: size limit reached; peak "), result.stderr


def test_preloaded_by_hand(tmp_path):
    """The recorder says what it knows."""
    def preloaded(code):
        settings = environment(LD_PRELOAD=str(LIBRARIES["trace"]), VRAMTRACE_OUT="x.vrt")
        (tmp_path / "x.vrt").unlink(missing_ok=True)
        return subprocess.run(python(code), cwd=tmp_path, env=settings, capture_output=True, text=True).stderr

    assert preloaded("begin()") == "vramtrace: peak 3 MiB on GPU 0 · vramtrace report x.vrt\n"
    assert preloaded(OUT_OF_MEMORY) == "vramtrace: peak 3 MiB on GPU 0 · out of memory seen · vramtrace oom x.vrt\n"
    # Of a `run` that is gone nobody reads the list; a path that is another file's by now is left alone.
    other = tmp_path / "other"
    other.touch()
    with open(other) as file:
        settings = {"VRAMTRACE_RUN_LIST": f"/proc/{os.getpid()}/fd/{file.fileno()}"}
        result = subprocess.run(python("begin()"), cwd=tmp_path, env=environment(LD_PRELOAD=str(LIBRARIES["trace"]), **settings),
                                capture_output=True, text=True)
    assert result.stderr.startswith("vramtrace: peak 3 MiB") and other.read_bytes() == b""


# ---- Nobody notices ----


def test_quiet_becomes_the_command(tmp_path):
    for words, settings in ((["--quiet"], {}), ([], {"VRAMTRACE_QUIET": "1"}), (["--enable", "0"], {})):
        with start(*words, "sh", "-c", "echo $$", cwd=tmp_path, settings=settings) as started:
            assert int(started.stdout.read()) == started.pid and started.stderr.read() == ""


SHOWN = """
import json, os, signal
def text(path): return open(path).read()
status = dict(line.split(":", 1) for line in text("/proc/self/status").splitlines())
print(json.dumps({
    "files": sorted((name, os.readlink("/proc/self/fd/" + name)) for name in os.listdir("/proc/self/fd")
                    if os.path.exists("/proc/self/fd/" + name)),
    "signals": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")],
    "group": os.getpgrp(), "session": os.getsid(0), "terminal": text("/proc/self/stat").rsplit(")", 1)[1].split()[4], "nice": os.nice(0),
    "children": text("/proc/self/task/%d/children" % os.getpid()), "umask": os.umask(0), "limits": text("/proc/self/limits"),
    "variables": sorted(name for name in os.environ if not name.startswith(("VRAMTRACE", "LD_PRELOAD", "NVTX")))}))
"""


@pytest.mark.parametrize("closed", [[], [0], [1], [0, 2]])
def test_what_the_command_inherits(closed, tmp_path):
    """As without `run`: descriptors, also closed ones and those above 2; signals; process group, session, terminal."""
    out = tmp_path / "shown"
    ours, theirs = os.pipe()

    def prepare():
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
        for number in closed:
            os.close(number)

    shown = []
    for before in ([], [str(ANALYZER), "run"]):
        code = SHOWN.replace("print(", f"open({str(out)!r}, 'w').write(")
        subprocess.run([*before, sys.executable, "-c", code], cwd=tmp_path, env=environment(), stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[theirs], preexec_fn=prepare, check=True)
        shown.append(json.loads(out.read_text()))
    os.close(ours)
    os.close(theirs)
    assert shown[0] == shown[1]


def test_input_and_output_are_the_commands(tmp_path):
    with start("sh", "-c", "read word; echo $word; exec >&- <&-; sleep 1; echo late >&2", cwd=tmp_path, stdin=subprocess.PIPE) as started:
        started.stdin.write("hello\n")
        started.stdin.flush()
        begin = time.monotonic()
        assert started.stdout.read() == "hello\n"  # it ends when the command closes it
        assert time.monotonic() - begin < 0.9 and started.poll() is None
        assert started.stderr.read() == "late\nvramtrace: no CUDA call was seen: no trace\n"
        assert started.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL, signal.SIGPIPE, signal.SIGHUP, signal.SIGALRM])
def test_it_ends_as_its_command(number, tmp_path):
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    assert run("sh", "-c", f"kill -{int(number)} $$", cwd=tmp_path).returncode == -number


COUNT = """
counted = []
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGUSR1, signal.SIGWINCH, signal.SIGRTMIN + 1):
    signal.signal(number, lambda number, frame: counted.append(number))
say("ready")
while signal.SIGUSR1 not in counted: time.sleep(0.01)
time.sleep(0.3)
say(*map(int, counted))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGRTMIN + 1])
@pytest.mark.parametrize("to_all", [False, True])
def test_a_signal_arrives_once(number, to_all, tmp_path):
    """Sent to `run`, as by `kill PID`, or to its group, as by a shell's `kill %1`."""
    with start(*python(COUNT), cwd=tmp_path, start_new_session=True) as started:
        assert started.stdout.readline() == "ready\n"
        for one in (number, signal.SIGUSR1):
            (os.killpg if to_all else os.kill)(started.pid, one)
            time.sleep(0.3)
        assert started.stdout.read().split() == [str(int(number)), str(int(signal.SIGUSR1))]
        assert started.wait() == 0


def test_an_alarm_set_before(tmp_path):
    """`perl -e 'alarm 1; exec @ARGV'`: the timer stays with the process, whose command dies of it."""
    begin = time.monotonic()
    result = subprocess.run([ANALYZER, "run", "sleep", "30"], cwd=tmp_path, env=environment(), capture_output=True, text=True,
                            preexec_fn=lambda: signal.alarm(1))
    assert result.returncode == -signal.SIGALRM and time.monotonic() - begin < 20


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_the_command_does_not_outlive_it(tmp_path):
    with start(*python("say(os.getpid()); time.sleep(60)"), cwd=tmp_path, start_new_session=True) as started:
        pid = int(started.stdout.readline())
        helpers = [int(child) for child in pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()]
        assert pid in helpers and pid != started.pid
        started.kill()
        until = time.monotonic() + 10
        while any(map(is_running, helpers)) and time.monotonic() < until:
            time.sleep(0.01)
        assert not any(map(is_running, helpers))


def test_nothing_stays(tmp_path):
    """No process of its group, no file."""
    with start("sh", "-c", "true", cwd=tmp_path, start_new_session=True) as started:
        started.wait()
    with pytest.raises(ProcessLookupError):
        os.killpg(started.pid, 0)
    assert not list(tmp_path.iterdir())


def test_the_number_of_run_means_the_command(tmp_path):
    """`vramtrace run … & vramtrace ctl $! …`: a shell knows no other number."""
    with start("-o", "x.vrt", *python("begin(); say(os.getpid()); time.sleep(60)"), cwd=tmp_path) as started:
        pid = int(started.stdout.readline())
        for number in (started.pid, pid):
            done = subprocess.run([ANALYZER, "ctl", str(number), "mark", "here"], capture_output=True, text=True)
            assert done.returncode == 0 and done.stdout.startswith(f"{pid}: "), done.stderr
            told = json.loads(subprocess.run([ANALYZER, "top", "--json", str(number)], capture_output=True, check=True).stdout)
            assert [process["pid"] for process in told["processes"]] == [pid]
        assert subprocess.run([ANALYZER, "ctl", str(os.getpid()), "stop"], capture_output=True).returncode != 0
        started.terminate()


# ---- On a terminal ----


class Terminal:
    """A process group in the foreground of a terminal, as a shell makes it."""

    SHELL = """
import json, os, signal, sys
def forward(number): os.write(3, (json.dumps(number) + "\\n").encode())
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = os.fork()
if not child:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.close(3), os.close(4)
    os.execv(sys.argv[1], sys.argv[1:])
forward(child)
while True:
    _, status = os.waitpid(child, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    forward(["stopped", os.WSTOPSIG(status)] if os.WIFSTOPPED(status) else ["ended", os.waitstatus_to_exitcode(status)])
    if not os.WIFSTOPPED(status): break
    os.read(4, 1)
    os.tcsetpgrp(0, child)
    os.killpg(child, signal.SIGCONT)
"""

    def __init__(self, *words, cwd):
        told, self.tell = os.pipe()
        self.told, tell = os.pipe()
        shell, self.terminal = pty.fork()
        if not shell:
            os.chdir(cwd)
            apart = [fcntl.fcntl(number, fcntl.F_DUPFD, 100) for number in (tell, told)]  # either may be 3 or 4 by now
            os.dup2(apart[0], 3), os.dup2(apart[1], 4)
            os.closerange(5, max(apart) + 1)
            os.execve(sys.executable, [sys.executable, "-c", self.SHELL, *map(str, words)], environment())
        self.shell = shell
        os.close(tell)
        os.close(told)
        self.said = ""
        self.pid = self.hear()

    def hear(self):
        assert select.select([self.told], [], [], 60)[0], self.said
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.told, 1)
        return json.loads(line)

    def await_text(self, text):
        until = time.monotonic() + 60
        while text not in self.said and time.monotonic() < until:
            if select.select([self.terminal], [], [], 0.1)[0]:
                try:
                    self.said += os.read(self.terminal, 4096).decode()
                except OSError:
                    break
        assert text in self.said, self.said

    def type(self, text):
        os.write(self.terminal, text)

    def continue_stopped(self):
        """The shell sees the job stop, and runs `fg`."""
        assert self.hear() == ["stopped", signal.SIGTSTP]
        os.write(self.tell, b"x")

    def type_line(self, word):
        """The program says what it reads."""
        self.type(word.encode() + b"\n")
        self.await_text(f"read {word}")

    def end(self):
        os.waitpid(self.shell, 0)
        self.await_text("vramtrace: ")
        for number in (self.terminal, self.tell, self.told):
            os.close(number)


# A signal that comes just before a long sleep begins does not interrupt it.
WAIT = "[time.sleep(0.05) for _ in range(1200)]"


def test_control_c(tmp_path):
    (tmp_path / "x.py").write_text(CUDA + f"begin(); say('ready'); {WAIT}")
    terminal = Terminal(ANALYZER, "run", "-o", "x.vrt", sys.executable, "x.py", cwd=tmp_path)
    terminal.await_text("ready")
    terminal.type(b"\x03")
    assert terminal.hear() == ["ended", -signal.SIGINT]
    terminal.end()
    assert "vramtrace: interrupted (Ctrl-C) · peak 3 MiB on GPU 0 · vramtrace report x.vrt" in terminal.said
    assert "no: the process was interrupted (Ctrl-C)" in subprocess.run([ANALYZER, "info", tmp_path / "x.vrt"], capture_output=True,
                                                                        text=True).stdout
    report = subprocess.run([ANALYZER, "report", tmp_path / "x.vrt"], capture_output=True, text=True).stdout
    assert "interrupted (Ctrl-C)" in report.splitlines()[0] and "killed" not in report
    assert info(tmp_path / "x.vrt")["trace"]["complete"] is False


def test_a_program_that_goes_on_after_control_c(tmp_path):
    """Its handler runs once, and it decides how it ends."""
    code = "signal.signal(signal.SIGINT, lambda *_: (os.write(1, b'caught\\n'), sys.exit(4)))\nbegin(); say('ready'); " + WAIT
    terminal = Terminal(ANALYZER, "run", "-o", "x.vrt", *python(code), cwd=tmp_path)
    terminal.await_text("ready")
    terminal.type(b"\x03")
    assert terminal.hear() == ["ended", 4]
    terminal.end()
    assert terminal.said.count("caught") == 1 and "interrupted" not in terminal.said and "peak 3 MiB" in terminal.said


@pytest.mark.parametrize("how", ["keyboard", "kill", "itself"])
def test_stop_and_go_on(how, tmp_path):
    """Ctrl-Z and fg; the shell sees one job that stops and goes on."""
    code = "say('ready', os.getpid())\nfor i in range(3): say('read', sys.stdin.readline())"
    if how == "itself":
        code = "say('ready'); os.kill(os.getpid(), signal.SIGTSTP)\n" + code
    terminal = Terminal(ANALYZER, "run", *python(code), cwd=tmp_path)
    terminal.await_text("ready")
    for word in ("one", "two"):
        if how == "keyboard":
            terminal.type(b"\x1a")
        elif how == "kill":
            os.kill(terminal.pid, signal.SIGTSTP)
        if how != "itself" or word == "one":
            terminal.continue_stopped()
        terminal.type_line(word)
    terminal.type(b"three\n")
    assert terminal.hear() == ["ended", 0]
    terminal.end()
    assert "no CUDA call was seen" in terminal.said


def test_stop_again_at_once_on_a_busy_machine(tmp_path):
    """The process that notes what was sent to the whole group hardly runs: a continuation is not sent a second time, after the next
    stop."""
    terminal = Terminal(ANALYZER, "run", *python("for i in range(5): say('read', sys.stdin.readline())"), cwd=tmp_path)
    terminal.type_line("first")
    children = [int(pid) for pid in pathlib.Path(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read_text().split()]
    (witness,) = [pid for pid in children if pathlib.Path(f"/proc/{pid}/exe").resolve() == pathlib.Path(ANALYZER).resolve()]
    processor = min(os.sched_getaffinity(0))
    os.sched_setscheduler(witness, os.SCHED_IDLE, os.sched_param(0))
    os.sched_setaffinity(witness, {processor})
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        os.sched_setaffinity(busy.pid, {processor})
        try:
            for word in ("one", "two", "three"):
                terminal.type(b"\x1a")
                terminal.continue_stopped()
                terminal.type_line(word)
            terminal.type(b"last\n")
            assert terminal.hear() == ["ended", 0]
        finally:
            busy.kill()
    terminal.end()
