"""Why a program failed: the exception that ended its main thread, or a process of multiprocessing. A mark in the trace for reports, and a
note for the answer: the first is the cause, others follow from it."""
import atexit
import contextlib
import ctypes
import sys

MOST = 900  # bytes of a mark


def note(error):
    from .changes import note as write
    text = " ".join(f"{type(error).__name__}: {error}".split()).encode()[:MOST].decode(errors="ignore")
    mark = getattr(ctypes.CDLL(None), "vramtrace_mark", None)
    if mark:
        mark(f"vramtrace: ended by {text}".encode())
    with contextlib.suppress(OSError):
        write("ended", text, applied=False)


def begin():
    """Called at the start of Python: an exception that nothing handles is kept until the end."""
    def look():
        error = getattr(sys, "last_value", None)
        if error is not None and not hasattr(sys, "ps1"):
            note(error)

    atexit.register(look)


def install(process):
    """multiprocessing.process, which prints what ended a process, and goes on to its end."""
    import traceback
    own = traceback.print_exc

    def print_exc(*args, **kwargs):
        if sys._getframe(1).f_code.co_filename == process.__file__:
            note(sys.exc_info()[1])
        return own(*args, **kwargs)

    traceback.print_exc = print_exc
