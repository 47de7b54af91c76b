"""The traces that `vramtrace mcp` may open, and what it may print of them."""
import os
import re
import stat
import struct
import sys
from typing import Iterator, NamedTuple

if sys.version_info < (3, 11):
    print("vramtrace mcp: it needs Python 3.11, and %s is older: set VRAMTRACE_PYTHON to a newer one" % sys.executable, file=sys.stderr)
    sys.exit(2)

MAX_FILES = 10_000  # that are looked at in folders


class Failure(Exception):
    """What to do instead."""


# ---- Text ----

UNSAFE = re.compile("[\0-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(text: str, letters: int | None = None, one_line: bool = True) -> str:
    """Text that moves no terminal's cursor: U+FFFD for all else."""
    text = text.replace("\n", " ").replace("\t", " ") if one_line else text
    cut = text if letters is None or len(text) <= letters else text[:letters] + "…"
    return UNSAFE.sub(lambda found: found[0] if not one_line and found[0] in "\n\t" else "\ufffd", cut)


def bytes_text(size: int) -> str:
    value, units = float(size), ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
    if size < 1024:
        return f"{size} B"
    while (value := value / 1024) >= 1023.5 and len(units) > 1:
        units.pop(0)
    digits = 0 if value.is_integer() or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {units[0]}"


# ---- Traces ----

HEADER = struct.Struct("<8s48x8xQQ96xII Q 24x Q")  # of include/vramtrace/format.h, up to the number of events
RECORDING = 1


class Root(NamedTuple):
    path: str  # all links resolved
    is_folder: bool


class Trace(NamedTuple):
    path: str
    name: str  # below its root; of a trace that was named, the last part of its path
    size: int
    start_ns: int  # since 1970
    end_ns: int  # where it is not known, the file's last change
    events: int
    is_recording: bool  # its ring changes without a sign in the file's times
    file: tuple[int, ...]  # changes when the file does


def read_trace(path: str, name: str) -> Trace | None:
    """None: it is no trace, or may not be read."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        header = os.pread(file, HEADER.size, 0).ljust(HEADER.size, b"\0")
    except OSError:
        return None
    finally:
        os.close(file)
    magic, start_ns, began_ns, state, _, ended_ns, events = HEADER.unpack(header)
    if not any(magic):  # the process ended before there was more
        start_ns = status.st_mtime_ns
    elif magic != b"VRAMTRC\n":
        return None
    end_ns = start_ns + ended_ns - began_ns if ended_ns > began_ns else status.st_mtime_ns
    events = min(events, status.st_size * 8)  # what a damaged header says cannot be in the file
    return Trace(path, name, status.st_size, start_ns, max(start_ns, end_ns), events, state == RECORDING,
                 (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns))


class Found(NamedTuple):
    traces: list[Trace]  # the newest first
    forbidden: int  # files and folders that may not be read
    is_cut: bool


class Traces:
    """Those that may be opened: those that were named, and those below the folders named."""

    def __init__(self, names: list[str]) -> None:
        self.roots = [Root(os.path.realpath(name, strict=True), os.path.isdir(name)) for name in names or ["."]]

    def below(self, root: Root, path: str) -> str | None:
        """The part of a path below the folder."""
        folder = root.path.rstrip("/") + "/"
        return path[len(folder):] if root.is_folder and path.startswith(folder) else None

    def name(self, path: str) -> str:
        return next(filter(None, (self.below(root, path) for root in self.roots)), os.path.basename(path))

    def files(self, root: Root, errors: list[OSError]) -> Iterator[str]:
        """Does not follow links: they may lead out of the folder, or around."""
        for folder, folders, names in os.walk(root.path, onerror=errors.append):
            for name in folders + names:
                yield os.path.join(folder, name)

    def list(self) -> Found:
        traces: list[Trace] = []
        errors: list[OSError] = []
        forbidden = looked_at = 0
        for root in self.roots:
            for path in self.files(root, errors) if root.is_folder else [root.path]:
                looked_at += root.is_folder
                if looked_at > MAX_FILES:
                    break
                if root.is_folder and (len(os.path.basename(path)) <= 4 or not path.endswith(".vrt") or os.path.islink(path)):
                    continue
                trace = read_trace(path, clean(self.below(root, path) or os.path.basename(path)))
                if trace:
                    traces.append(trace)
                elif os.path.isfile(path) and not os.access(path, os.R_OK):
                    forbidden += 1
        forbidden += sum(isinstance(error, PermissionError) for error in errors)
        return Found(sorted(traces, key=lambda trace: (-trace.start_ns, trace.path)), forbidden, looked_at > MAX_FILES)

    def may_open(self, path: str) -> bool:
        return any(self.below(root, path) if root.is_folder else root.path == path for root in self.roots)

    def find_path(self, name: str) -> str | None:
        for root in self.roots:
            try:
                if not root.is_folder and os.path.basename(root.path) == name:
                    return root.path
                path = os.path.realpath(os.path.join(root.path if root.is_folder else "/", name), strict=True)
            except (OSError, ValueError):
                continue
            if (root.is_folder or name.startswith("/")) and not name.endswith("/") and self.may_open(path):
                return path
        return None

    def find(self, name: str | None) -> str:
        """The path of the trace called so; of the newest without a name."""
        path = self.find_path(name) if name else None
        if path:
            return path
        found = self.list()
        for trace in found.traces:  # names that are not UTF-8 are known by how they are listed
            if name is None or trace.name == name:
                return trace.path
        if name is not None:
            raise Failure(f"no trace '{name[:300]}' here: only traces below the server's folder can be opened; the tool `traces` "
                          "lists them")
        if found.forbidden:
            raise Failure(f"no trace here is readable by this user ({found.forbidden} are not)")
        raise Failure("no traces here; record one with `vramtrace run COMMAND`")

    def place(self, path: str) -> tuple[str, str]:
        """A folder to ask in, and what the trace is called there: so answers have its short name."""
        for root in self.roots:
            name = self.below(root, path)
            if name:
                return root.path, name
        return os.path.split(path)
