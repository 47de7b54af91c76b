"""vramtrace from inside a Python program: marks, regions, steps and inspections in its own trace.

You can leave the calls in: without ``vramtrace run`` they do nothing and return False. No call raises, blocks or takes a lock; all
work from any thread.

    import vramtrace

    for batch in loader:
        train(batch)
        vramtrace.step()
    with vramtrace.region("evaluation"):
        evaluate()
    vramtrace.mark("after evaluation")       # vramtrace report --at "mark:after evaluation"

``report()`` reads any trace into a dict. ``%load_ext vramtrace`` gives notebooks a ``%vramtrace`` magic.
"""
import ctypes
import json
import os
import subprocess
from contextlib import ContextDecorator
from typing import Any, Callable, Dict, List, Optional

__all__ = ["loaded", "mark", "inspect", "start", "stop", "step", "region", "report", "trace_path", "program", "Error"]

# The marks that `step` makes; vramtrace counts steps by them (analyzer/attribute/steps.c).
_STEP = b"vramtrace.step"


class Error(RuntimeError):
    """``report()`` or ``program()`` failed; the text says why."""


def _find(name: str, *types: Any) -> Optional[Callable[..., int]]:
    # PyDLL keeps the interpreter's lock: giving it back and taking it again costs more than the call.
    try:
        function = getattr(ctypes.PyDLL(None), name)
    except (AttributeError, OSError):
        return None
    function.argtypes = types
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


_mark = _find("vramtrace_mark", ctypes.c_char_p)
_inspect = _find("vramtrace_inspect", ctypes.c_char_p)
_start = _find("vramtrace_start")
_stop = _find("vramtrace_stop")
_push = _find("vramtrace_range_push", ctypes.c_char_p)
_pop = _find("vramtrace_range_pop")


def _bytes(name: object) -> bytes:
    try:
        return name if isinstance(name, bytes) else str(name).encode("utf-8", "replace")
    except Exception:  # a __str__ of the program's own
        return b"?"


def loaded() -> bool:
    """True if this process is being recorded."""
    return _mark is not None


def mark(name: str) -> bool:
    """Gives this moment a name: ``vramtrace report --at mark:NAME``.

    At most 1023 bytes of the name are kept. True if it was recorded.
    """
    return _mark is not None and _mark(_bytes(name)) == 1


def inspect(name: str = "inspect") -> bool:
    """A mark, and an inspection: which tensors are alive, their names, and what keeps them alive.

    It runs at the main thread's next safe point, without a time limit. True if the mark was recorded.
    """
    return _inspect is not None and _inspect(_bytes(name)) == 1


def start() -> bool:
    """Resumes recording stacks. True if stacks are recorded now."""
    return _start is not None and _start() == 1


def stop() -> bool:
    """Pauses: bytes are still counted, at next to no cost, without stacks and inspections. True if paused now."""
    return _stop is not None and _stop() == 1


def step() -> bool:
    """Marks an iteration (or request): one call in each, always at the same place, its beginning or its end.

    vramtrace finds the steps of most training loops without it. If a program calls it, only these calls count. True if it was
    recorded.
    """
    return _mark is not None and _mark(_STEP) == 1


class region(ContextDecorator):
    """A named range on the calling thread: ``with region("evaluation"):``, or ``@region("evaluation")`` on a function.

    Regions nest, like NVTX ranges. One object may be used many times and by many threads.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = _bytes(name)

    def __enter__(self) -> "region":
        if _push is not None:
            _push(self._name)
        return self

    def __exit__(self, *unused: object) -> None:
        if _pop is not None:
            _pop()


def trace_path() -> Optional[str]:
    """The trace that this process is writing; None before the first CUDA call, or if it is not being recorded."""
    try:
        descriptors = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for number in sorted(map(int, descriptors), reverse=True):  # the recorder's is a high one
        link = "/proc/self/fd/%d" % number
        try:
            path = os.readlink(link)
            if not path.startswith("/") or not os.path.isfile(link):
                continue
            with open(link, "rb") as file:
                if file.read(8) == b"VRAMTRC\n":
                    return path
        except OSError:
            continue
    return None


def program() -> str:
    """The path of the command `vramtrace`: the one installed with this module, else the one in PATH."""
    import importlib.metadata
    import shutil

    try:
        files = importlib.metadata.files("vramtrace") or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == "vramtrace" and file.parent.name == "bin":
            path = os.path.realpath(str(file.locate()))
            if os.access(path, os.X_OK):
                return path
    found = shutil.which("vramtrace")
    if not found:
        raise Error("the vramtrace command was not found")
    return found


def report(trace: Optional[str] = None, *arguments: str) -> Dict[str, Any]:
    """The dict of ``vramtrace report --json`` for a trace (default: the newest in this folder).

    `arguments` are more options, for example ``"--at", "end"``. Raises Error with the command's message.
    """
    words: List[str] = [program(), "report", "--json", *arguments]
    if trace is not None:
        words += ["--", os.fspath(trace)]
    # The command itself uses no GPU; it must not be traced either.
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(), check=False)
    if done.returncode:
        raise Error(done.stderr.decode("utf-8", "replace").strip() or "vramtrace report exited with %d" % done.returncode)
    result = json.loads(done.stdout)
    return result  # type: ignore[no-any-return]


def _environment() -> Dict[str, str]:
    environment = dict(os.environ)
    words = environment.get("LD_PRELOAD", "").replace(":", " ").split()
    environment["LD_PRELOAD"] = ":".join(word for word in words if os.path.basename(word) != "libvramtrace.so")
    return environment


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext vramtrace``"""
    from .jupyter import register

    register(shell)
