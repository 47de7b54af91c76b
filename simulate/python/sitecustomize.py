"""Runs at the start of every Python under a dry run: asks to be called after certain modules are imported, then runs the
sitecustomize that the program's own environment has."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def begin():
    if "VRAMTRACE_SIMULATION" not in os.environ or os.environ.get("VRAMTRACE_DRYRUN_HOOKS") == "off":
        return
    try:
        sys.path.insert(0, HERE)
        import vramtrace_dryrun
        vramtrace_dryrun.begin()
    finally:
        sys.path.remove(HERE)


def run_the_next():
    saved, own = list(sys.path), sys.modules.pop("sitecustomize", None)
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.path[:] = saved
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


begin()
run_the_next()
