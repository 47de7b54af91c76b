"""Wrong uses that people come up with: the exit status, and the one line on stderr, which says what is wrong, where, and what
to do next. Nothing is printed on stdout, and nothing is written."""
import os
import pathlib
import shlex

import pytest

from test_cli import run
from trace_file import ALLOC, DRIVER, MARK, TraceFile

USE, UNREADABLE, NOT_WRITTEN = 2, 3, 4
MOMENTS = "use peak, reserved, end, oom, oom#2, mark:NAME, mark:NAME#2, step:N, event:N or a time such as 3.2s or 150ms"
FORMATS = "perfetto, pprof, speedscope, folded, memory-viz, csv, sqlite, parquet"
RECORD = "(record one with: vramtrace run COMMAND)"
TWO = ("expected two traces, or two moments of one: vramtrace diff A B, vramtrace diff TRACE@step:2 TRACE@step:9; without B, it is the "
       "newest trace here")

# In a folder with run.vrt, again/run.vrt, notes.txt, and the folders empty and results.
TABLE = [
    # the command
    ("frobnicate", USE, "vramtrace: unknown command 'frobnicate'; vramtrace help lists them"),
    ("reprot run.vrt", USE, "vramtrace: unknown command 'reprot'; did you mean vramtrace report?"),
    ("run.vrt", USE, "vramtrace: 'run.vrt' is not a command; did you mean vramtrace report run.vrt?"),
    ("--versoin", USE, "vramtrace: unknown option '--versoin'; did you mean vramtrace --version?"),
    ("--json report", USE, "vramtrace: unknown option '--json'; a command comes first: vramtrace COMMAND [OPTIONS]"),
    ("help frobnicate", USE, "vramtrace help: unknown command 'frobnicate'; vramtrace help lists them"),
    ("lib run.vrt", USE, "vramtrace lib: unexpected argument 'run.vrt'"),
    ("completions tcsh", USE, "vramtrace completions: which shell? vramtrace completions bash, zsh or fish"),
    # options and their values
    ("report --jsn run.vrt", USE, "vramtrace report: unknown option '--jsn'; did you mean --json?"),
    ("report -x run.vrt", USE, "vramtrace report: unknown option '-x'; vramtrace help report lists them"),
    ("report --verify run.vrt", USE, "vramtrace report: --verify is an option of `vramtrace info`, not of `vramtrace report`; vramtrace help "
                                     "report lists its options"),
    ("report run.vrt --by", USE, "vramtrace report: --by needs a value: --by WHAT"),
    ("report --json=yes run.vrt", USE, "vramtrace report: --json takes no value"),
    ("report --top many run.vrt", USE, "vramtrace report: --top must be a number from 1 to 1000000, not 'many'"),
    ("report --top -1 run.vrt", USE, "vramtrace report: --top must be a number from 1 to 1000000, not '-1'"),
    ("report --width 3 run.vrt", USE, "vramtrace report: --width must be a number from 40 to 1000, not '3'"),
    ("report --by colour run.vrt", USE, "vramtrace report: --by takes category, module, kind, owner, line, stack, op, block or holder, not 'colour'"),
    ("report --device 7 run.vrt", USE, "vramtrace report: run.vrt: no device 7 in the trace; the highest is 0"),
    ("report --rules none run.vrt", USE, "vramtrace report: --rules: none: No such file or directory"),
    ("report --rules notes.txt run.vrt", USE, "vramtrace report: --rules: notes.txt:1: 'notes': expected 'rule', 'trait' or 'code'"),
    ("info --stacks run.vrt", USE, "vramtrace info: --stacks needs --events"),
    ("info --verify --json run.vrt", USE, "vramtrace info: --verify has no --json: its exit status is the result"),
    # moments
    ("report --at yesterday run.vrt", USE, f"vramtrace report: run.vrt: 'yesterday' is not a moment; {MOMENTS}"),
    ("report --at step:9 run.vrt", USE, "vramtrace report: run.vrt: no step 9 in the trace; it has steps 1 to 2 (and 0, before the first)"),
    ("report --at mark:warm run.vrt", USE, "vramtrace report: run.vrt: no mark 'warm' in the trace; it has 'vramtrace.step'"),
    ("report --at 1h run.vrt", USE, "vramtrace report: run.vrt: 1h is after the end of the trace, which is 4.0 ms long"),
    ("report --at event:99 run.vrt", USE, "vramtrace report: run.vrt: no event 99 in the trace; it has 4, numbered from 0"),
    ("oom --at oom#2 run.vrt", USE, "vramtrace oom: run.vrt: the trace has no out-of-memory event"),
    ("leaks --at end run.vrt", USE, "vramtrace leaks: --at is not available for this command: it looks at the whole run; for one moment: "
                                    "vramtrace report --at MOMENT"),
    ("report --at end run.vrt again/run.vrt", USE,
     "vramtrace report: --at works on one trace: name one, or add --each for a report of each "
                                                   "trace"),
    # traces
    ("report none.vrt", UNREADABLE, f"vramtrace report: none.vrt: No such file or directory {RECORD}"),
    ("report notes.txt", UNREADABLE, f"vramtrace report: notes.txt: not a vramtrace trace {RECORD}"),
    ("report empty", UNREADABLE, "vramtrace report: empty: no traces found in this folder or below (record one with: vramtrace run -o FOLDER/ "
                                 "COMMAND)"),
    ("annotate results", UNREADABLE, "vramtrace annotate: results is a folder; name a trace in it"),
    ("annotate run.vrt a.py b.py", USE, "vramtrace annotate: expected a trace and a source file; unexpected argument 'b.py'"),
    ("list none", UNREADABLE, f"vramtrace list: none: No such file or directory {RECORD}"),
    ("mcp none", UNREADABLE, "vramtrace mcp: none: No such file or directory; name traces, or folders with traces"),
    # two of them
    ("diff", USE, f"vramtrace diff: {TWO}"),
    ("diff run.vrt", USE, "vramtrace diff: no other trace (*.vrt) in this folder to compare with; name two traces, or two moments of one: "
                          "vramtrace diff TRACE@step:2 TRACE@step:9"),
    ("diff run.vrt run.vrt run.vrt", USE, f"vramtrace diff: {TWO}"),
    ("diff --by block run.vrt again/run.vrt", USE, "vramtrace diff: blocks cannot be matched between runs; choose another --by"),
    ("html --diff run.vrt", USE, "vramtrace html: --diff compares two traces, not 1: vramtrace html --diff A B"),
    # check
    ("check run.vrt", USE, "vramtrace check: nothing to check: give a limit such as --max-peak 20GiB; vramtrace help check lists them"),
    ("check --max-peak lots run.vrt", USE, "vramtrace check: --max-peak takes a size such as 20GiB, not 'lots'"),
    ("check --max-peak 1GiB --tolerance 2% run.vrt", USE, "vramtrace check: --tolerance needs --baseline TRACE"),
    ("check --max-peak 1GiB --format xml run.vrt", USE, "vramtrace check: --format takes text, json, github or junit, not 'xml'"),
    ("check --max-peak 1GiB --json --format junit run.vrt", USE, "vramtrace check: --json is --format json: give one format"),
    ("check --baseline none.vrt run.vrt", UNREADABLE, f"vramtrace check: none.vrt: No such file or directory {RECORD}"),
    # export
    ("export run.vrt", USE, f"vramtrace export: --format is required: {FORMATS}"),
    ("export --format perfeto run.vrt", USE, "vramtrace export: unknown format 'perfeto'; did you mean perfetto?"),
    ("export --format xml run.vrt", USE, f"vramtrace export: unknown format 'xml'; --format takes {FORMATS}"),
    ("export --format csv run.vrt", USE, "vramtrace export: csv writes one file per table: use -o FOLDER, or --table TABLE"),
    ("export --format csv --table none run.vrt", USE,
     "vramtrace export: --table takes events, allocations, stacks, frames, tensors, steps, "
                                                      "phases, marks, requests, instants, trace, devices, peak, leaks, out_of_memory, cards or columns, not "
                                                      "'none'"),
    ("export --format sqlite run.vrt", USE, "vramtrace export: sqlite cannot be written to a pipe: use -o x.sqlite"),
    ("export --format folded run.vrt again/run.vrt", USE,
     "vramtrace export: a file holds one trace; for 2, give a folder that exists: -o FOLDER"),
    # where to
    ("report -o results run.vrt", NOT_WRITTEN, "vramtrace report: cannot write results: it is a folder; give a file in it: -o "
                                               "results/report.txt"),
    ("report -o none/x.txt run.vrt", NOT_WRITTEN,
     "vramtrace report: cannot write none/x.txt: No such file or directory; create its folder first"),
    ("report -o run.vrt run.vrt", USE, "vramtrace report: -o run.vrt would overwrite a trace; give another file"),
    ("report -o '' run.vrt", USE, "vramtrace report: -o needs a file name, or - for the standard output"),
    ("html --open -o - run.vrt", USE, "vramtrace html: --open needs a file: use -o report.html"),
    # running processes
    ("top -n 1", USE, "vramtrace top: --top is an option of `vramtrace report`, not of `vramtrace top`; vramtrace help top lists its options"),
    ("top none", USE, "vramtrace top: 'none' is not a PID, folder or trace: No such file or directory"),
    ("ctl 99999999", USE, "vramtrace ctl: missing action: vramtrace ctl 99999999 start|stop|mark|inspect|snapshot"),
    ("ctl 99999999 strat", USE, "vramtrace ctl: 'strat' is not start, stop, mark, inspect or snapshot; did you mean 'start'?"),
    ("ctl 99999999 stop", UNREADABLE, "vramtrace ctl: process 99999999 is not being recorded (vramtrace ctl lists those that are; in a container, "
                                      "run it there)"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("wrong_use")
    for name in ("again", "empty", "results"):
        (path / name).mkdir()
    (path / "notes.txt").write_text("notes\n" * 2000)
    trace = TraceFile()
    trace.device(0, 1 << 30, b"GPU")
    trace.string(1, b"vramtrace.step")
    trace.event(ALLOC, DRIVER, address=1 << 32, size=1 << 20)
    for _ in range(3):
        trace.event(MARK, detail=1)
    for name in ("run.vrt", "again/run.vrt"):
        trace.write(path / name, state=2)
    return path


def listing(folder):
    return sorted((str(path), path.stat().st_mtime_ns) for path in pathlib.Path(folder).rglob("*"))


@pytest.mark.parametrize("words,status,line", TABLE, ids=[words for words, *_ in TABLE])
def test_wrong_use(words, status, line, folder):
    before = listing(folder)
    result = run(*shlex.split(words), cwd=folder)
    assert (result.returncode, result.stderr, result.stdout) == (status, line + "\n", "")
    assert listing(folder) == before


def test_without_traces(folder):
    for command in ("report", "oom", "leaks", "html", "info"):
        result = run(command, cwd=folder / "empty")
        assert (result.returncode, result.stderr) == (USE, f"vramtrace {command}: no trace (*.vrt) in this folder; name one: vramtrace {command} "
                                                           f"TRACE {RECORD}\n")


def test_a_folder_that_may_not_be_written(folder):
    """/sys, where root may make no file either."""
    result = run("report", "-o", "/sys/x.txt", folder / "run.vrt")
    why = "Read-only file system" if os.statvfs("/sys").f_flag & os.ST_RDONLY else "Permission denied"
    assert (result.returncode, result.stderr, result.stdout) == \
        (NOT_WRITTEN, f"vramtrace report: cannot write /sys/x.txt: {why}; write elsewhere with -o FILE\n", "")


def test_enough_of_them():
    assert len({words for words, *_ in TABLE}) == len(TABLE) >= 20
