"""python -m vramtrace: the command vramtrace, with this Python for scripts.

    python -m vramtrace run train.py         runs and records train.py with this Python; also run -m MODULE
    python -m vramtrace kernel install       installs a Jupyter kernel that records its GPU memory
    python -m vramtrace COMMAND...           the same as vramtrace COMMAND...
"""
import os
import sys

from . import Error, program


def main() -> int:
    words = sys.argv[1:]
    if words[:1] == ["kernel"]:
        from .kernel import main as kernel

        return kernel(words[1:])
    try:
        command = program()
        os.environ["VRAMTRACE_INTERPRETER"] = sys.executable  # runs scripts; the command takes it away again
        if words[:1] in (["export"], ["mcp"]):  # Parquet, memory-viz and the server are made in Python
            os.environ["VRAMTRACE_PYTHON"] = os.environ.get("VRAMTRACE_PYTHON") or sys.executable
        os.execv(command, [command, *words])
    except (Error, OSError) as error:
        print("python -m vramtrace: %s" % error, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
