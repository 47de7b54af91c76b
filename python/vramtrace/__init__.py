"""vramtrace from inside a Python program: marks, regions, steps and inspections in its own trace.

Everything here may stay in a program: where the recorder is not loaded (the program does not run under ``vramtrace run``),
each call does nothing and returns False. No call raises, blocks or takes a lock; all may be made from any thread.

    import vramtrace

    for batch in loader:
        train(batch)
        vramtrace.step()
    with vramtrace.region("evaluation"):
        evaluate()
    vramtrace.mark("after evaluation")       # vramtrace report --at "mark:after evaluation"

``report()`` reads a trace, of any process, into a dict. ``%load_ext vramtrace`` gives notebooks a ``%vramtrace`` magic.
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
    """True if the recorder is in this process."""
    return _mark is not None


def mark(name: str) -> bool:
    """Puts an instant named `name` into the trace: ``vramtrace report --at mark:NAME``.

    At most 1023 bytes of the name are kept. True if it was recorded.
    """
    return _mark is not None and _mark(_bytes(name)) == 1


def inspect(name: str = "inspect") -> bool:
    """A mark that also asks for an inspection: which tensors live then, what they are called, and who holds them.

    It runs at the main thread's next safe point, however long it takes. True if the mark was recorded.
    """
    return _inspect is not None and _inspect(_bytes(name)) == 1


def start() -> bool:
    """Ends a pause: from here on events have stacks again. True if it is so now."""
    return _start is not None and _start() == 1


def stop() -> bool:
    """Begins a pause: bytes are counted, at next to no cost, but without stacks and inspections. True if it is so now."""
    return _stop is not None and _stop() == 1


def step() -> bool:
    """Says that a training iteration (or a request) ends here, or begins: one call in each, always at the same place.

    vramtrace finds the steps of most trainings by itself. If a program calls this, its calls decide. True if it was
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
    """The trace that this process is writing; None if there is none (yet: it begins with the first CUDA call)."""
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
    """The path of the command `vramtrace`: the one that was installed with this module, else the one of PATH."""
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
        raise Error("the command vramtrace is neither installed with this module nor on PATH")
    return found


def report(trace: Optional[str] = None, *arguments: str) -> Dict[str, Any]:
    """What ``vramtrace report --json`` says of a trace, as a dict; of this folder's newest trace if none is named.

    `arguments` are more options, for example ``"--at", "end"``. Raises Error with the command's own message.
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
