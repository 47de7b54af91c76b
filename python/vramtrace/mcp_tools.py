"""The tools of `vramtrace mcp`. Each asks vramtrace, which prints a short text and data (--brief); `sql` asks SQLite about the
tables that it exports."""
import functools
import itertools
import json
import os
import sqlite3
import subprocess
import tempfile
import time
from typing import Any

from .mcp_sql import open_database, run_query
from .mcp_traces import MAX_FILES, Failure, Found, Trace, Traces, bytes_text, clean, read_trace

FEW, FEW_LINES, FEW_RANKS, FEW_TRACES, FEW_ROWS = 6, 12, 16, 20, 20  # rows, where none are asked for
ALL_TABLES = 100  # more than there are
KEPT_ANSWERS, KEPT_DATABASES = 64, 4
OUT_OF_MEMORY = 5  # vramtrace's exit status
# What one answer may take: memory, of vramtrace too; events of all traces that it reads; of one that is read whole.
MEMORY_BYTES = int(os.environ.get("VRAMTRACE_MCP_MEMORY") or 8 << 30)
MAX_EVENTS, MAX_WHOLE_EVENTS = 40_000_000, 20_000_000
SLACK_NS = 60_000_000_000  # clocks of nodes differ, and ranks begin to use their GPUs at different times

Call = dict[str, Any]  # the arguments that were given
Answer = tuple[str, dict[str, Any] | None]  # text and data

# ---- Asking vramtrace ----

STYLE = ["--brief", "--width=100", "--color=never", "--no-pager"]


class Program:
    def __init__(self, path: str) -> None:
        self.path = path
        self.answers: dict[tuple[Any, ...], str] = {}

    def run(self, words: list[str], traces: list[Trace], folder: str = "/", some: bool = False) -> str:
        """What it prints. With `some`: also if it could not read all."""
        try:
            done = subprocess.run([self.path, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except (OSError, ValueError) as error:  # an argument that is too long, or has a letter that none may have
            raise Failure(f"vramtrace cannot be called with that: {error}") from None
        text = done.stdout.decode("utf-8", "replace")
        if not done.returncode or (some and text):
            return text
        lines = done.stderr.decode("utf-8", "replace").splitlines()
        if done.returncode < 0 or done.returncode == OUT_OF_MEMORY or not lines:
            raise Failure(f"this needs more than {bytes_text(MEMORY_BYTES)} of memory, the limit of an answer: choose another trace or "
                          "tool, or raise the limit with VRAMTRACE_MCP_MEMORY=BYTES")
        reason = lines[-1].removeprefix(f"vramtrace {words[0]}: ")
        raise Failure(functools.reduce(lambda said, trace: said.removeprefix(f"{trace.path}: "), traces, reason))

    def ask(self, words: list[str], traces: list[Trace], folder: str = "/", some: bool = False) -> str:
        """The same, remembered."""
        key = (folder, *words, *(trace.file for trace in traces))
        text = self.answers.pop(key, None)
        if text is None or any(trace.is_recording for trace in traces):
            text = self.run(words, traces, folder, some)
        self.answers[key] = text
        if len(self.answers) > KEPT_ANSWERS:
            del self.answers[next(iter(self.answers))]
        return text


# ---- The tools ----

class Tools:
    def __init__(self, program: Program, traces: Traces) -> None:
        self.program, self.traces = program, traces
        self.databases: dict[str, tuple[tuple[int, ...], sqlite3.Connection]] = {}
        self.outcomes: dict[tuple[int, ...], dict[str, Any]] = {}

    def open(self, name: str | None, whole: bool = False) -> Trace:
        path = self.traces.find(name)
        if not os.path.isfile(path):
            raise Failure(f"{path} is not a file")
        trace = read_trace(path, self.traces.name(path))
        if trace and whole and trace.events > MAX_WHOLE_EVENTS:
            raise Failure(f"the trace has {trace.events:,} events, too many for this tool: use vramtrace annotate or vramtrace "
                          "export --format sqlite on a machine with enough memory")
        return trace or Trace(path, self.traces.name(path), 0, 0, 0, 0, True, ())  # vramtrace says why

    def ask(self, trace: Trace, words: list[str], call: Call, few: int, *operands: str, data: bool = False) -> Answer:
        command = [*words, *STYLE, f"--top={call.get('top') or few}", *(["--json"] if data else [])]
        command += [f"--{option}={call[option]}" for option in ("at", "by", "depth", "device") if option in call]
        text = self.program.ask([*command, "--", trace.path, *operands], [trace])
        document, text = text.split("\n", 1) if data else ("null", text)
        return f"{clean(trace.name)}\n{text}", json.loads(document)

    def summary(self, call: Call) -> Answer:
        """Start here: what ran, out-of-memory errors, leaks, the peak and what filled it."""
        return self.ask(self.open(call.get("trace")), ["report", "--summary"], call, FEW, data=True)

    def report(self, call: Call) -> Answer:
        """GPU memory at a moment (default: the peak) by module, line and stack; what would lower the peak."""
        return self.ask(self.open(call.get("trace")), ["report"], call, FEW)

    def leaks(self, call: Call) -> Answer:
        """Memory that grows every step: evidence, lines to check, the Python name that keeps it alive, remedy."""
        return self.ask(self.open(call.get("trace")), ["leaks"], call, FEW, data=True)

    def oom(self, call: Call) -> Answer:
        """Why memory ran out: the failed request, what filled the GPU, causes, remedies."""
        return self.ask(self.open(call.get("trace")), ["oom"], call, FEW, data=True)

    def frag(self, call: Call) -> Answer:
        """The allocator's segments, their free space, and the lines that pin segments."""
        return self.ask(self.open(call.get("trace")), ["frag"], call, FEW)

    def explain(self, call: Call) -> Answer:
        """Why memory was put in its category: rules, inspections, stacks."""
        return self.ask(self.open(call.get("trace")), ["report", f"--explain={call['what']}"], call, FEW)

    def annotate(self, call: Call) -> Answer:
        """Source lines with their memory. Without `file`: a table of files."""
        trace = self.open(call.get("trace"), whole=True)
        words = ["annotate", *(["--all"] if call.get("all") else [])]
        return self.ask(trace, words, call, FEW_LINES, *([call["file"]] if "file" in call else []))

    def diff(self, call: Call) -> Answer:
        """What grew and shrank between two traces, or two moments of one."""
        if "other_trace" not in call and "other_at" not in call:
            raise Failure("give `other_trace`, or `other_at` for another moment of the same trace")
        trace = self.open(call.get("trace"))
        other = self.open(call["other_trace"]) if "other_trace" in call else trace
        sides = [f"{trace.path}@{call.get('at', 'peak')}", f"{other.path}@{call.get('other_at', 'peak')}"]
        words = ["diff", *STYLE, f"--top={call.get('top') or FEW}",
                 *(f"--{option}={call[option]}" for option in ("by", "depth", "device") if option in call)]
        text = self.program.ask([*words, "--", *sides], [trace, other])
        heads = [f"{clean(named.name)}\n" for named in ([trace, other] if "other_trace" in call else [trace])]
        return "".join(heads) + text, None

    # ---- traces ----

    def export_tables(self, trace: Trace, *options: str) -> str:
        """A database of its tables; the caller removes it."""
        file, path = tempfile.mkstemp(prefix="vramtrace-mcp-", suffix=".sqlite")
        os.close(file)
        try:
            self.program.run(["export", "--format=sqlite", *options, f"--out={path}", "--", trace.path], [trace])
        except BaseException:
            os.unlink(path)
            raise
        return path

    def outcome(self, trace: Trace) -> dict[str, Any] | None:
        """How the run ended: read once, when it has. None: the trace cannot be read."""
        if trace.file in self.outcomes:
            return self.outcomes[trace.file]
        try:
            path = self.export_tables(trace, "--summary")
        except Failure:
            return None
        database = sqlite3.connect(path)
        try:
            row = database.execute("SELECT command, outcome, rank, out_of_memory, ended_by_out_of_memory, state, (SELECT "
                                   "max(peak_used_bytes) FROM devices) FROM trace").fetchone()
        finally:
            database.close()
            os.unlink(path)
        command, text, rank, failed, ended, state, peak = row
        first, space, rest = command.partition(" ")
        short = clean(first.rpartition("/")[2] + space + rest or "unknown command")
        if failed:
            text = "out of memory" if ended else f"{text[:60]}, ran out of memory but continued"
        outcome = {**({"rank": rank} if rank >= 0 else {}), "command": short if len(short) <= 80 else short[:79] + "…",
                   "outcome": text, "out_of_memory": failed, "peak_used_bytes": peak or 0}
        if state != "recording":
            self.outcomes[trace.file] = outcome
        return outcome

    def list_traces(self, call: Call) -> Answer:
        """The traces, newest first: command, outcome, peak."""
        found, top, events = self.traces.list(), call.get("top") or FEW_TRACES, 0
        text = f"{len(found.traces)} trace{'' if len(found.traces) == 1 else 's'}, newest first\n"
        items = []
        for trace in found.traces[:top]:
            began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(trace.start_ns // 1_000_000_000))
            known = trace.file in self.outcomes
            fits = known or events + trace.events <= MAX_EVENTS
            events += 0 if known or not fits else trace.events
            outcome = self.outcome(trace) if fits else None
            items.append({"trace": trace.name, "bytes": trace.size, "began": began, **(outcome or {})})
            if outcome:
                rank = f"rank {outcome['rank']} · " if "rank" in outcome else ""
                told = f"{rank}{outcome['outcome']} · peak {bytes_text(outcome['peak_used_bytes'])} · {outcome['command']}"
            else:
                told = f"{bytes_text(trace.size)}, not read here"
            text += f"{began}  {trace.name}: {told}\n"
        if len(found.traces) > top:
            text += f"… {len(found.traces) - top} more: raise `top` to see them\n"
        text += self.forbidden_text(found)
        if found.is_cut:
            text += f"Only the first {MAX_FILES} files of the folders were read: name a folder with fewer.\n"
        return text, {"traces": items, "count": len(found.traces), "cut": found.is_cut, "forbidden": found.forbidden}

    @staticmethod
    def forbidden_text(found: Found) -> str:
        return f"{found.forbidden} more here are not readable by this user.\n" if found.forbidden else ""

    # ---- job ----

    def job(self, call: Call) -> Answer:
        """All ranks and processes of a trace's job: peaks, outliers and why, what each holds on its GPU."""
        path = self.traces.find(call.get("trace"))
        named = read_trace(path, self.traces.name(path))
        if not named:
            raise Failure(f"{self.traces.name(path)} is not a trace")
        found = self.traces.list()
        near = sorted((trace for trace in found.traces
                       if trace.start_ns <= named.end_ns + SLACK_NS and named.start_ns <= trace.end_ns + SLACK_NS),
                      key=lambda trace: (abs(trace.start_ns - named.start_ns), trace.path))
        totals = itertools.accumulate(trace.events for trace in near)
        members = [trace for i, (trace, total) in enumerate(zip(near, totals, strict=True)) if not i or total <= MAX_EVENTS]
        members = members or [named]
        folder = self.traces.place(path)[0]
        names = [name if place == folder else trace.path for trace in members for place, name in [self.traces.place(trace.path)]]
        words = ["oom" if call.get("oom") else "report", *STYLE, "--json", f"--top={call.get('top') or FEW_RANKS}"]
        # One that is named twice is a job of one, not a trace.
        text = self.program.ask([*words, "--", names[0], *names], members, folder, some=True)
        for name, trace in zip(names, members, strict=True):
            text = text if name != trace.path else text.replace(name, trace.name)
        document, text = text.split("\n", 1)
        data = json.loads(document)
        left_out = len(near) - len(members) if near else 0
        head = f"{left_out} more traces of that time were left out: together they are too large.\n" if left_out else ""
        return head + self.forbidden_text(found) + text, data

    # ---- sql ----

    def sql(self, call: Call) -> Answer:
        """One SELECT over the trace in SQLite. Without `query`: all tables, views and columns."""
        trace = self.open(call.get("trace"), whole=True)
        kept, database = self.databases.pop(trace.path, ((), None))
        if database is None or kept != trace.file or trace.is_recording:
            if database:
                database.close()
            path = self.export_tables(trace)
            try:
                database = open_database(path)
            except (MemoryError, sqlite3.Error):
                raise Failure("not enough memory for the tables") from None
            finally:
                os.unlink(path)
        self.databases[trace.path] = trace.file, database
        if len(self.databases) > KEPT_DATABASES:
            self.databases.pop(next(iter(self.databases)))[1].close()
        rows = call.get("top") or (FEW_ROWS if call.get("query") else ALL_TABLES)
        text, data = run_query(database, call.get("query"), rows, call.get("cell_characters"))
        return f"{clean(trace.name)}\n{text}", data
