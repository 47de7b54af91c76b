"""A card that is really full, beside a process that holds most of it."""
import json
import subprocess
import time

from helpers import ENVIRONMENT
from helpers import PYTHON
from judges.shared import GIB, PROGRAMS, RUN, report, vramtrace, whole
from judges.work import record, refusal

LEFT = 3 * GIB
HOLDER_SECONDS = 60


def full_card(figures, folder):
    memory = {"VRAMTRACE_STANDIN_MEMORY": "8GiB", "VRAMTRACE_STANDIN_SHARED": str(folder / "card")} if RUN else {}
    ready, end = folder / "ready", folder / "end"
    holder = subprocess.Popen([*RUN, PYTHON, str(PROGRAMS / "holder.py"), str(LEFT), str(ready), str(end)],
                              env={**ENVIRONMENT, **memory}, stderr=open(folder / "holder.log", "w"))
    try:
        started = time.monotonic()
        while not ready.exists():
            assert holder.poll() is None, f"the holder ended: {(folder / 'holder.log').read_text()[-300:]}"
            assert time.monotonic() - started < HOLDER_SECONDS, "the holder did not get its memory"
            time.sleep(0.1)
        held = int(ready.read_text())
        trace, truth = record("full_card", folder, **memory)
    finally:
        end.write_text("")
        holder.wait(HOLDER_SECONDS)
    whole(figures, trace)
    refusal(figures, trace, truth)
    table = report(trace)["devices"][0]["gpu"]
    others = sum(row["bytes"] for row in table["rows"] if row["kind"] in ("process", "context_and_processes"))
    figures.holds("the other process is in the table of the card", others >= held, [others, held])
    figures.told("the other process: bytes, with its context", others, "the holder's own tensor", held)
    last = json.loads(vramtrace("oom", "--json", trace).stdout)["last"]
    figures.told("the causes that oom tells", [[cause["what"], cause["bytes"]] for cause in last["causes"]])
    figures.told("oom: bytes free on the card", last["gpu"].get("free_bytes"), "cuMemGetInfo after the refusal", truth["told"]["free"])
