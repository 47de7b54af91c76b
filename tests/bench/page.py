#!/usr/bin/env python3
"""What a page costs: tests/bench/page.py [TRACE...] [--kinds NAME,…] [--millions N,…] [--markdown FILE]

For each trace: the time that `vramtrace html` takes, the size of the page, and in headless Chromium, which draws in software
here, what a reader waits for: the first paint, the whole trace read, and frames while the timeline is dragged, zoomed and pointed
at, with each tab open. Without TRACEs it records them, by long.py.
Needs VRAMTRACE_READERS' packages; run it with that interpreter.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "browser"))
import long  # noqa: E402
from browser import Browser  # noqa: E402

import helpers  # noqa: E402

ROUNDS = 3
MOVES = "pan", "zoom", "point"
# Moves the window or the pointer once a frame, as a drag does, for two seconds; gives the times between frames, in ms.
FRAMES = """
const [what, done] = arguments, {store, model, timeline} = vramtrace, axis = model.axis(store.get().axis);
const whole = axis.hi - axis.lo, times = [], box = document.getElementById('chart').getBoundingClientRect(), {area} = timeline;
const move = (share) => document.getElementById('chart').dispatchEvent(new PointerEvent('pointermove',
    {clientX: box.left + area.left + area.width * share, clientY: box.top + area.top + area.height / 2, bubbles: true}));
let last = performance.now(), frame = 0;
const step = (now) => {
    times.push(now - last);
    last = now;
    const t = frame++ / 240;
    if (what === 'point') move(t % 1);
    else if (what === 'pan') { const lo = axis.lo + whole * 0.6 * (t % 1); store.set({zoom: [lo, lo + whole * 0.3]}); }
    else { const span = whole * Math.pow(0.001, t % 1), lo = axis.lo + whole * 0.37 - span * 0.37; store.set({zoom: [Math.max(axis.lo, lo), Math.max(axis.lo, lo) + span]}); }
    if (times.length < 20 || now - began < 2000) requestAnimationFrame(step); else done(times.slice(2));
};
const began = performance.now();
requestAnimationFrame(step);
"""


def of_command(trace, page):
    """(seconds, CPU seconds) of `vramtrace html`: the least of the rounds."""
    walls, cpus = [], []
    for _ in range(ROUNDS):
        before, began = os.times(), time.monotonic()
        helpers.vramtrace("html", "-o", page, trace)
        after = os.times()
        walls.append(time.monotonic() - began)
        cpus.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(walls), min(cpus)


def of_browser(page, browser):
    """Seconds to the first paint and to all being read, by the browser's clock; frames a second and the longest of them, by tab."""
    paints, reads = [], []
    for _ in range(ROUNDS):
        browser.driver.get("about:blank")
        browser.driver.get(f"file://{page}")
        browser.wait("document.body && document.body.dataset.ready")
        paint, ready = browser.script("[performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null, performance.getEntriesByName('vramtrace-ready')[0]?.startTime ?? performance.now()]")
        if paint is not None:
            paints.append(paint / 1000)
        reads.append(ready / 1000)
    found = {"first paint": min(paints) if paints else None, "read": min(reads), "tabs": {}}
    for tab in browser.script("[...document.querySelectorAll('[role=tab]')].map(tab => tab.id.slice(4))"):
        rates = found["tabs"][tab] = {}
        for what in MOVES:
            browser.script("vramtrace.store.set({tab: arguments[0]})", tab)
            browser.press("0")
            browser.settle()
            times = browser.driver.execute_async_script(FRAMES, what)
            rates[what] = 1000 / statistics.mean(times), max(times)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="*", type=pathlib.Path)
    parser.add_argument("--kinds", default="equal")
    parser.add_argument("--millions", default="0.4,4.6")
    parser.add_argument("--markdown", type=pathlib.Path, help="the tables go there too")
    options = parser.parse_args()
    pages = ["| trace | events | page | html: time, CPU | first paint | all read |", "|---|--:|--:|--:|--:|--:|"]
    frames = ["| trace | tab | pan | zoom | pointer |", "|---|---|--:|--:|--:|"]
    with tempfile.TemporaryDirectory() as folder, Browser(pathlib.Path(folder)) as browser:
        sizes = [int(float(number) * 1e6) for number in options.millions.split(",")]
        traces = options.traces or [trace for kind in options.kinds.split(",")
                                    for trace in long.record(kind, sizes, pathlib.Path(folder)).values()]
        for trace in traces:
            page = pathlib.Path(folder) / "page.html"
            wall, cpu = of_command(trace, page)
            found = of_browser(page, browser)
            events = helpers.info(trace)["trace"]["events"]
            paint = "–" if found["first paint"] is None else f"{found['first paint']:.2f} s"
            pages.append(f"| {trace.stem} | {events:,} | {page.stat().st_size / 1e6:.2f} MB | {wall:.2f} s, {cpu:.2f} s | {paint} | {found['read']:.2f} s |")
            print(pages[-1], flush=True)
            for tab, rates in found["tabs"].items():
                cells = (f"{rate:.0f}/s, longest {longest:.0f} ms" for rate, longest in rates.values())
                frames.append(f"| {trace.stem} | {tab} | {' | '.join(cells)} |")
                print(frames[-1], flush=True)
    version = subprocess.run(["chromium", "--version"], capture_output=True, text=True).stdout.strip()
    lines = [helpers.made_here("What `vramtrace html` and its page cost", "tests/bench/page.py TRACE…"), *pages, "", *frames, "",
             f"{version}, headless, drawing in software."]
    print("\n" + "\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
