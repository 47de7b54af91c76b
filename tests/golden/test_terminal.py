"""On a terminal: the pager, and progress. The terminal is a pty, the program the leader of its session."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import time

import pytest

import trace_file
from test_cli import PROGRAM, run, usual_signals

EVENTS = 300
PATIENCE_S = 60


@pytest.fixture
def trace(tmp_path):
    file = trace_file.TraceFile()
    for i in range(EVENTS):
        file.event(trace_file.ALLOC, trace_file.DRIVER, 0x7000000000 + i * 4096, 4096)
    return file.write(tmp_path / "x.vrt")


class Terminal:
    """A command on a terminal of its own. A shell leads the session, because the kernel may drop what a leader writes last. It prints the
    command's status after the command's output."""

    LEADER = "trap : INT TERM QUIT; \"$@\"; printf '\\001%d\\002' $?; read -r _ </proc/self/fd/LEAVE"

    def __init__(self, arguments, rows=24, columns=100, stderr=None, **environment):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        settings = termios.tcgetattr(slave)
        settings[3] |= termios.NOFLSH  # else Ctrl-C drops what was written and not read yet
        termios.tcsetattr(slave, termios.TCSANOW, settings)
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("VRAMTRACE_", "LD_PRELOAD", "LESS")) and k not in ("PAGER", "NO_COLOR", "COLUMNS", "LV")}
        kept.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", "LESSHISTFILE": "-", "VRAMTRACE_PROGRESS": "never", **environment})
        leave, self.leave = os.pipe()
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", self.LEADER.replace("LEAVE", str(leave)), "sh", PROGRAM.resolve(), *map(str, arguments)], stdin=slave,
            stdout=slave, stderr=stderr or slave, env=kept, start_new_session=True, pass_fds=[leave],
            preexec_fn=lambda: (usual_signals(), fcntl.ioctl(0, termios.TIOCSCTTY, 0)))
        os.close(slave)
        os.close(leave)
        self.seen = b""

    def read(self):
        """What comes next; b"" at the end."""
        ready, _, _ = select.select([self.master], [], [], PATIENCE_S)
        assert ready, f"nothing came; so far: {self.seen!r}"
        try:
            more = os.read(self.master, 65536)
        except OSError:  # Linux's way to say that nobody has the other side
            more = b""
        self.seen += more
        return more

    def wait_for(self, part):
        while part not in self.seen:
            assert self.read(), f"{part!r} is not in {self.seen!r}"

    def press(self, keys):
        os.write(self.master, keys)

    def end(self):
        """Everything on the terminal as lines, and the exit status."""
        while not self.seen.endswith(b"\x02"):
            assert self.read(), self.seen
        os.close(self.leave)
        self.process.wait(PATIENCE_S)
        os.close(self.master)
        self.seen, status = self.seen[:-1].rsplit(b"\x01", 1)
        return self.seen.decode().replace("\r\n", "\n"), int(status) if int(status) < 128 else 128 - int(status)


# The pager gets what would scroll away.


def test_a_pager_gets_the_text(trace):
    plain = run("info", "--events", trace).stdout
    assert len(plain.splitlines()) == EVENTS
    assert Terminal(["info", "--events", trace], VRAMTRACE_PAGER="sed s/^/PAGED/").end() == \
        ("".join(f"PAGED{line}\n" for line in plain.splitlines()), 0)


@pytest.mark.parametrize("command", ["report", "timeline", "oom", "frag", "leaks", "steps", "annotate", "info"])
def test_every_text_has_a_pager(command, trace):
    text, status = Terminal([command, "--color=always", trace] if command != "info" else [command, trace],
                            VRAMTRACE_PAGER="sed s/^/PAGED/").end()
    assert status == 0 and text and all(line.startswith("PAGED") for line in text.splitlines())
    assert "vramtrace" in text or command == "info"


def test_a_difference_has_a_pager(trace):
    text, status = Terminal(["diff", trace, trace], VRAMTRACE_PAGER="sed s/^/PAGED/").end()
    assert status == 0 and text and all(line.startswith("PAGED") for line in text.splitlines())


@pytest.mark.parametrize("environment,paged", [
    ({"PAGER": "sed s/^/P/"}, True), ({"PAGER": "sed s/^/P/", "VRAMTRACE_PAGER": "cat"}, False),
    ({"PAGER": "sed s/^/P/", "VRAMTRACE_PAGER": ""}, False), ({"PAGER": "cat"}, False), ({"PAGER": " "}, False),
    ({"PAGER": "sed 's/^/P/'"}, True), ({"PAGER": "cat", "VRAMTRACE_PAGER": "sed s/^/P/"}, True),
    ({"PAGER": "sed s/^/P/", "TERM": "dumb"}, False)], ids=str)
def test_which_pager(environment, paged, trace):
    text, status = Terminal(["info", trace], **environment).end()
    plain = run("info", trace).stdout
    assert (text, status) == ("".join(f"P{line}\n" for line in plain.splitlines()) if paged else plain, 0)


@pytest.mark.parametrize("options", [["--no-pager"], ["--json"]], ids=str)
def test_no_pager(options, trace):
    text, status = Terminal(["report", *options, trace], VRAMTRACE_PAGER="sed s/^/PAGED/").end()
    assert status == 0 and text and "PAGED" not in text


def test_no_pager_for_a_file_or_a_pipe(trace, tmp_path):
    text, status = Terminal(["report", "-o", tmp_path / "out", trace], VRAMTRACE_PAGER="sed s/^/PAGED/").end()
    assert (text, status) == ("", 0) and "PAGED" not in (tmp_path / "out").read_text()
    assert "PAGED" not in run("report", trace, env={"VRAMTRACE_PAGER": "sed s/^/PAGED/", "TERM": "xterm"}).stdout


def test_colours_and_width_are_the_terminals(trace):
    text, _ = Terminal(["report", trace], columns=61, VRAMTRACE_PAGER="sed 's/\\x1b/ESC/g'").end()
    plain = Terminal(["report", "--no-pager", trace], columns=61).end()[0]
    assert "\x1b[1m" in plain and text == plain.replace("\x1b", "ESC")
    assert max(len(line) for line in run("report", "--width", "61", trace).stdout.splitlines()) > 50


@pytest.mark.parametrize("pager", ["head -n 2", "true", "sh -c 'exit 5'"])
def test_a_pager_that_ends_early(pager, trace):
    """Quitting is no error, whatever the pager's own status."""
    text, status = Terminal(["info", "--events", trace], VRAMTRACE_PAGER=pager).end()
    assert status == 0
    assert text == "".join(run("info", "--events", trace).stdout.splitlines(True)[:2 if pager.startswith("head") else 0])


def test_the_status_is_the_commands(trace, tmp_path):
    text, status = Terminal(["info", trace, tmp_path / "missing.vrt"], VRAMTRACE_PAGER="sed s/^/PAGED/").end()
    assert status == 3
    assert f"PAGEDvramtrace info: {tmp_path}/missing.vrt: No such file" in text  # the message, too


def test_a_pager_that_is_not_there(trace):
    plain = run("info", trace).stdout
    text, status = Terminal(["info", trace], VRAMTRACE_PAGER="no-such-pager -x").end()
    assert status == 0 and text.endswith(plain)
    assert text.startswith("vramtrace info: cannot run the pager 'no-such-pager -x': No such file or directory; set VRAMTRACE_PAGER")
    text, status = Terminal(["info", trace], VRAMTRACE_PAGER="no-such-pager | cat").end()
    assert status == 0
    text, status = Terminal(["info", trace], VRAMTRACE_PAGER="no-such-pager 'x'").end()
    assert status == 4 and "the pager could not be run, so nothing was printed" in text


def test_without_less_the_text_is_printed(trace, tmp_path):
    assert Terminal(["info", trace], PATH=str(tmp_path)).end() == (run("info", trace).stdout, 0)


needs_less = pytest.mark.skipif(not shutil.which("less"), reason="less is not installed")


@needs_less
def test_less_ends_at_once_where_the_text_fits(trace):
    text, status = Terminal(["info", trace], rows=100).end()
    assert status == 0 and run("info", trace).stdout.splitlines()[0] in text


@needs_less
def test_less_waits_where_it_does_not(trace):
    terminal = Terminal(["info", "--events", trace], rows=20)
    terminal.wait_for(b":")
    assert terminal.process.poll() is None
    terminal.press(b"q")
    assert terminal.end()[1] == 0


@needs_less
def test_ctrl_c_does_not_leave_the_pager_alone(trace):
    """The pager goes on; we end after it, as what the signal makes of us."""
    terminal = Terminal(["info", "--events", trace], rows=20)
    terminal.wait_for(b":")
    terminal.press(b"\x03")
    while b"(END)" not in terminal.seen:  # less still listens, though the signal may have cost it a key
        terminal.press(b"G")
        time.sleep(0.1)
        terminal.read()
    assert terminal.process.poll() is None
    terminal.press(b"q")
    assert terminal.end()[1] == -signal.SIGINT


# Progress: on the terminal that stderr is, and gone at the end. VRAMTRACE_PROGRESS=always does not wait a second.


WORKS = ["reading", "replaying", "attributing", "reporting"]
ERASE = b"\r\x1b[K"


def drawn(seen):
    """The lines that were drawn and erased."""
    return [line.decode() for line in seen.split(ERASE)]


def test_progress_is_drawn_and_erased(trace, tmp_path):
    terminal = Terminal(["report", "-o", tmp_path / "out", trace], VRAMTRACE_PROGRESS="always")
    text, status = terminal.end()
    lines = drawn(terminal.seen)
    assert status == 0 and lines[0] == lines[-1] == ""  # nothing is left
    works = [line.split()[0] for line in lines if line]
    assert works == sorted(works, key=WORKS.index) and set(works) >= {"replaying", "attributing", "reporting"}
    percents = [int(line.split("%")[0].split()[-1]) for line in lines if line]
    assert percents == sorted(percents) and 0 <= percents[0] and percents[-1] < 100
    assert (tmp_path / "out").read_text() == run("report", trace).stdout


def test_nothing_is_left_before_the_text(trace):
    text, status = Terminal(["info", "--no-pager", trace], VRAMTRACE_PROGRESS="always").end()
    assert status == 0 and text.rsplit(ERASE.decode(), 1)[1] == run("info", trace).stdout


def test_nothing_is_left_before_a_message(tmp_path):
    path = tmp_path / "x.vrt"
    path.write_bytes(b"VRAMTRC\n")
    text, status = Terminal(["report", path], VRAMTRACE_PROGRESS="always").end()
    assert status == 3 and text.rsplit(ERASE.decode(), 1)[-1].startswith("vramtrace report: ")


@pytest.mark.parametrize("environment", [{"VRAMTRACE_PROGRESS": "auto"}, {"VRAMTRACE_PROGRESS": "never"},
                                         {"VRAMTRACE_PROGRESS": "always", "TERM": "dumb"}], ids=str)
def test_no_progress(environment, trace):
    """A small trace takes less than a second, however slow this machine."""
    terminal = Terminal(["info", "--no-pager", trace], **environment)
    assert terminal.end() == (run("info", trace).stdout, 0)


def test_no_progress_where_stderr_is_no_terminal(trace, tmp_path):
    with open(tmp_path / "errors", "wb") as errors:
        text, status = Terminal(["info", "--no-pager", trace], stderr=errors, VRAMTRACE_PROGRESS="always").end()
    assert (text, status) == (run("info", trace).stdout, 0)
    assert (tmp_path / "errors").read_bytes() == b""


def test_progress_shows_before_the_pager_and_not_in_it(trace):
    text, status = Terminal(["report", "--each", trace, trace], VRAMTRACE_PROGRESS="always", VRAMTRACE_PAGER="sed s/^/P/").end()
    before, after = text.rsplit(ERASE.decode(), 1)
    assert status == 0 and "reporting" in before and "vramtrace" not in before
    assert all(line.startswith("P") for line in after.splitlines()) and "replaying" not in after


def test_ctrl_c_leaves_a_clean_line(trace):
    """Whether it comes while a line is drawn or between two traces: nothing but the terminal's own ^C stays."""
    terminal = Terminal(["report", "--each", "-o", "/dev/null", *[trace] * 2000], VRAMTRACE_PROGRESS="always")
    terminal.wait_for(b"replaying")
    terminal.press(b"\x03")
    _, status = terminal.end()
    assert status == -signal.SIGINT and terminal.seen.replace(b"^C", b"").endswith(ERASE)
