"""Magics for notebooks (%load_ext vramtrace).

    %vramtrace html [TRACE] [OPTIONS]      the page of a trace, in the notebook; --height PIXELS (default 800)
    %vramtrace COMMAND [OPTIONS]           the output of a command: %vramtrace report --at end
    %%vramtrace [OPTIONS of run]           records the cell in a separate process and shows its report

Without a TRACE, the trace is the notebook's own if its kernel is recorded (python -m vramtrace kernel install),
else that of the last %%vramtrace cell, else the newest in the folder.
"""
import html
import os
import shlex
import subprocess
import sys
import tempfile
from typing import Any, List, Optional, Tuple

from . import Error, _environment, program, trace_path

_READERS = ("html", "report", "timeline", "oom", "frag", "leaks", "steps", "info")
_last: Optional[str] = None  # of the last cell that ran under the recorder


def _run(words: List[str], **options: Any) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([program(), *words], env=_environment(), stdin=subprocess.DEVNULL, check=False, **options)


def _with_trace(words: List[str]) -> List[str]:
    """Adds the default trace if none is named."""
    named = any(os.path.isfile(word.split("@", 1)[0]) or word.endswith(".vrt") for word in words[1:])
    known = trace_path() or _last
    return words if named or not known or words[0] not in _READERS else [*words, known]


def _take_height(words: List[str]) -> Tuple[List[str], int]:
    if "--height" not in words:
        return words, 800
    at = words.index("--height")
    try:
        return words[:at] + words[at + 2:], int(words[at + 1])
    except (IndexError, ValueError):
        raise Error("--height needs a number of pixels") from None


def _frame(page: str, height: int) -> str:
    # The page comes from a trace, which may come from anybody: it gets scripts, but not the notebook's origin.
    return ('<iframe sandbox="allow-scripts allow-downloads allow-popups" srcdoc="%s" '
            'style="width: 100%%; height: %dpx; border: 0"></iframe>' % (html.escape(page, quote=True), height))


def _show_page(words: List[str]) -> None:
    import IPython.display as notebook

    show: Any = notebook.display  # untyped there
    document: Any = notebook.HTML
    words, height = _take_height(words)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        done = _run([*words, "-o", path], stderr=subprocess.PIPE)
        if done.returncode:
            raise Error(done.stderr.decode("utf-8", "replace").strip())
        with open(path, encoding="utf-8") as file:
            show(document(_frame(file.read(), height)))


def _show_text(words: List[str]) -> None:
    done = _run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout.decode("utf-8", "replace"), end="")


def _line_magic(line: str) -> None:
    words = _with_trace(shlex.split(line) or ["report"])
    try:
        _show_page(words) if words[0] == "html" else _show_text(words)
    except (Error, OSError) as error:
        print("vramtrace: %s" % error, file=sys.stderr)


def _cell_magic(line: str, cell: str) -> None:
    global _last
    folder = tempfile.mkdtemp(prefix="vramtrace-cell-")  # kept: reports show the lines of the cell
    script, trace = os.path.join(folder, "cell.py"), os.path.join(folder, "cell.vrt")
    with open(script, "w", encoding="utf-8") as file:
        file.write(cell)
    try:
        done = _run(["run", "-o", trace, *shlex.split(line), "--", sys.executable, "-u", script],
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except (Error, OSError) as error:
        print("vramtrace: %s" % error, file=sys.stderr)
        return
    print(done.stdout.decode("utf-8", "replace"), end="")
    if done.returncode:
        print("vramtrace: the cell exited with %d" % done.returncode, file=sys.stderr)
    if os.path.exists(trace):
        _last = trace
        _show_text(["report", trace])


def register(shell: Any) -> None:
    shell.register_magic_function(_line_magic, "line", "vramtrace")
    shell.register_magic_function(_cell_magic, "cell", "vramtrace")
