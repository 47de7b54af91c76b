"""Makes the pictures of docs/gallery.md again: records trainings, makes their pages, and photographs them.

    tests/browser/gallery.py [PICTURE...]        all, or only some: overview, leak, ...; screens: docs/gallery/screens.md

Needs what tests/setup.sh's setup_trainers and setup_readers install; runs with $VRAMTRACE_READERS, over $VRAMTRACE_RUN if there is
no GPU. Recordings are made in a new folder, or in $VRAMTRACE_GALLERY, where those that are there are used again.
"""
import html
import io
import os
import pathlib
import re
import shutil
import sys
import tempfile

from PIL import Image
from selenium.webdriver.common.keys import Keys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from browser import Browser  # noqa: E402
from helpers import PYTHON, ROOT, run, vramtrace  # noqa: E402

PICTURES = ROOT / "docs" / "gallery"
LARGEST_BYTES = 120_000
WIDTH, HEIGHT = 1280, 800
SMALL_CARD_BYTES = 1536 << 20
TRAIN = ("train.py", "--steps", "20")


# ---- Recordings: name -> traces ----

def record(name, *command, **settings):
    """Where the trace is. The script was copied into this folder: no path of this machine is in a picture."""
    trace = pathlib.Path(f"{name}.vrt").resolve()
    if not trace.exists():
        trace.parent.mkdir(exist_ok=True)
        run([PYTHON, *command], trace, check=name != "small_card", VRAMTRACE_QUIET="1", **settings)
    return trace


def train():
    return [record("train", *TRAIN)]


def leak():
    return [record("leak", "leak.py")]


def small_card():
    return [record("small_card", *TRAIN, VRAMTRACE_STANDIN_MEMORY=str(SMALL_CARD_BYTES))]


def lengths():
    return [record("lengths", "lengths.py")]


def two():
    return ["--diff", *train(), record("larger_batch", *TRAIN, "--batch", "24")]


def generate():
    return [record("generate", "generate.py")]


def server():
    return [record("server", "server.py")]


def job():
    batches = ("16", "16", "24", "16")
    return [record(f"job/rank{rank}", *TRAIN, "--batch", batch, RANK=str(rank), WORLD_SIZE="4") for rank, batch in enumerate(batches)]


# ---- What is done on the page before the picture ----

def by_line(browser):
    browser.script("(() => { const by = document.querySelector('#panels select'); by.value = 'lines'; by.dispatchEvent(new Event('change')); })()")


def taller_panel(browser, rows=8):
    browser.script("document.getElementById('splitter').focus()")
    browser.press(*[Keys.ARROW_UP] * rows)
    browser.script("document.activeElement.blur()")


def one_step(browser):
    """The end of a step's forward pass and the beginning of its backward: single blocks, one of them chosen."""
    taller_panel(browser)
    browser.script("""(() => { const {model, store} = vramtrace, peak = model.steps.find((one) => one.step === 5).peak_event;
        const change = model.changeAtEvent(peak), made = (one) => model.eventOf(model.begin[one]);
        const [largest] = [...model.alive(change)].filter((one) => made(one) > peak - 120 && made(one) < peak - 20).sort((a, b) => model.bytes(b) - model.bytes(a));
        store.set({zoom: [peak - 220, peak + 140], pinA: change, selection: {kind: "block", key: String(largest)}}); })()""")


def hole_and_pin(browser):
    """The segment of many blocks with the largest hole, and the block that stays longest."""
    taller_panel(browser)
    browser.script("""(() => { const order = document.querySelector('#panels select'); order.value = 'free'; order.dispatchEvent(new Event('change'));
        const cells = (row) => [...row.cells].map((cell) => cell.textContent), [segments] = document.querySelectorAll('#panels tbody');
        [...document.querySelectorAll('#panels th button')].find((one) => one.textContent.startsWith('Largest hole')).click();
        [...segments.rows].find((row) => Number(cells(row)[5]) >= 5).click(); })()""")
    browser.settle()
    browser.script("[...document.querySelectorAll('#panels tbody')][1].rows[0].click()")
    browser.script("document.activeElement.blur()")


def show_in_timeline(browser):
    browser.script("[...document.querySelectorAll('#panels button')].find((one) => one.textContent === 'Show in timeline').click()")


def tick_all(browser):
    browser.script("document.querySelectorAll('.vp-tick input').forEach((box) => box.click())")


def two_steps(browser):
    browser.script("""(() => { const {model, store} = vramtrace, of = (n) => model.steps.find((one) => one.step === n);
        store.set({zoom: [of(4).first_event, of(6).first_event]}); })()""")


# name -> recording, what the address asks for, what is done then
PAGES = {
    "overview": (train, "axis=event", None),
    "dark": (train, "axis=event&tab=source&theme=dark", two_steps),
    "modules": (train, "axis=event&scale=use", taller_panel),
    "blocks": (train, "axis=event&tab=blocks&scale=use", one_step),
    "map": (lengths, "axis=event&tab=map", hole_and_pin),
    "leak": (leak, "axis=event&tab=leaks", show_in_timeline),
    "oom": (small_card, "axis=event&tab=oom", show_in_timeline),
    "flame": (train, "axis=event&tab=flame", taller_panel),
    "whatif": (leak, "axis=event&tab=advice", tick_all),
    "two": (two, "axis=event&tab=diff", by_line),
    "ranks": (job, "axis=event&tab=ranks", None),
}


# ---- Pictures ----

def colours(picture):
    """At most 256: the most frequent, but none that is nearly another. Those of areas stay exact, edges of letters may change."""
    chosen = []
    for _, one in sorted(picture.getcolors(picture.width * picture.height), reverse=True):
        if len(chosen) < 256 and all(max(abs(a - b) for a, b in zip(one, other)) > 5 for other in chosen):
            chosen.append(one)
    return chosen


def keep(png, name):
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for one in colours(picture) for part in one])
    picture = picture.quantize(palette=palette, dither=Image.Dither.NONE)
    path = PICTURES / f"{name}.png"
    picture.save(path, optimize=True)
    size = path.stat().st_size
    assert size <= LARGEST_BYTES, f"{path}: {size} bytes"
    print(f"{path.relative_to(ROOT)}: {size} bytes")


def page_picture(browser, name):
    recording, fragment, do = PAGES[name]
    page = pathlib.Path(f"{recording.__name__}.html").resolve()
    vramtrace("html", "-o", page, *recording())
    browser.open(page, fragment, WIDTH, HEIGHT)
    if do:
        do(browser)
    browser.settle()
    complaints = browser.complaints()
    assert not complaints, complaints
    keep(browser.driver.get_screenshot_as_png(), name)


def colour(number):
    """Of the terminal's 256: sRGB."""
    if number >= 232:
        return (8 + 10 * (number - 232),) * 3
    cube = number - 16
    return tuple(55 + 40 * part if part else 0 for part in (cube // 36, cube // 6 % 6, cube % 6))


def terminal_html(text):
    """What a terminal shows of our output: bold, dim and colours."""
    out, style = [], {}
    for piece in re.split(r"(\033\[[\d;]*m)", text):
        if not piece.startswith("\033"):
            out.append(f'<span style="{";".join(f"{key}:{value}" for key, value in style.items())}">{html.escape(piece)}</span>')
            continue
        codes = [int(code or 0) for code in piece[2:-1].split(";")]
        if codes[0] in (38, 48):
            style["color" if codes[0] == 38 else "background"] = "rgb({}, {}, {})".format(*colour(codes[2]))
        elif codes == [0]:
            style = {}
        else:
            style.update({1: {"font-weight": "bold"}, 2: {"opacity": ".6"}}[codes[0]])
    return ('<meta charset="utf-8"><style>body { margin: 0; background: #16181d; color: #e6e6e6; display: inline-block; } '
            "pre { font: 14px/17px 'DejaVu Sans Mono', monospace; margin: 14px 18px; }</style><pre>" + "".join(out) + "</pre>")


def terminal_picture(browser, name):
    command, width = (["timeline", "--axis", "events"], "130") if name == "timeline" else (["report", "--full"], "100")
    traces = [os.path.relpath(trace) for trace in train()]
    shown = vramtrace(*command, *traces, "--color", "always", "--width", width).stdout
    page = pathlib.Path(f"{name}.html")
    page.write_text(terminal_html(" ".join(["$ vramtrace", *command, *traces]) + "\n" + shown))
    browser.driver.get(f"file://{page.resolve()}")
    width, height = browser.script("[document.body.offsetWidth, document.body.offsetHeight]")
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                   {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
    keep(browser.driver.get_screenshot_as_png(), name)


# ---- Screens ----

SCREENS = [("A healthy training", "report", train), ("A leak", "report", leak), ("Out of memory", "report", small_card),
           ("Text generation", "report", generate), ("Four ranks, one of them with a larger batch", "report", job),
           ("The leak, with its evidence", "leaks", leak), ("What filled the GPU", "oom", small_card),
           ("Fragmentation, of sentences of any length", "frag", lengths), ("Two runs", "diff", lambda: two()[1:]),
           ("A server that leaks", "leaks", server)]


def screens():
    """The first screens, as a terminal of 80 columns shows them, and of 200."""
    parts = ["# First screens\n\nMade by `tests/browser/gallery.py screens` over the simulated CUDA: allocations are real, times are not those of "
             "a GPU. The scripts are those of `examples/`. `--full` prints the rest.\n"]
    for title, command, recording in SCREENS:
        traces = [os.path.relpath(trace) for trace in recording()]
        traces = [os.path.dirname(traces[0])] if len(traces) > 2 else traces
        for width in ("80", "200"):
            shown = vramtrace(command, *traces, "--width", width).stdout.rstrip()
            parts.append(f"## {title}{'' if width == '80' else ', at 200 columns'}\n\n    $ vramtrace {' '.join([command, *traces])}\n"
                         + "".join(f"    {line}".rstrip() + "\n" for line in shown.splitlines()))
    (PICTURES / "screens.md").write_text("\n".join(parts))


def main(wanted):
    names = [*PAGES, "report", "timeline", "screens"]
    unknown = set(wanted) - {*names}
    if unknown:
        sys.exit(f"gallery.py: no picture {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    PICTURES.mkdir(exist_ok=True)
    folder = pathlib.Path(os.environ.get("VRAMTRACE_GALLERY") or tempfile.mkdtemp(prefix="gallery-")).resolve()
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    for script in (*(ROOT / "examples").glob("*.py"), HERE / "programs" / "lengths.py"):
        shutil.copy2(script, folder)  # not newer than a recording, or its lines are not trusted
    if not wanted or "screens" in wanted:
        screens()
    with Browser(folder) as browser:
        for name in [name for name in wanted or names if name != "screens"]:
            (page_picture if name in PAGES else terminal_picture)(browser, name)


if __name__ == "__main__":
    main(sys.argv[1:])
