"""The page used as people use it: with the mouse, with keys, on paper, in the dark."""
import base64
import itertools
import json
import operator
import re

import page_data
import pytest
from browser import TABS, exact_bytes, printed_bytes
from conftest import LONG
from recordings import APART, TEN, at_event
from selenium.webdriver.common.keys import Keys

import helpers


@pytest.fixture(scope="module")
def both(traces, tmp_path_factory):
    path = tmp_path_factory.mktemp("diff") / "both.html"
    helpers.vramtrace("html", "--diff", "-o", path, traces["lora"], traces["gan"])
    return path


def choose_way(browser, way):
    browser.driver.execute_script("const s = document.querySelector('#panels select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", way)
    browser.settle()


def click_tile(browser, name):
    x, y = browser.script("""((tile) => [tile.left + 8, tile.top + 8])([...document.querySelectorAll('.vp-tile')]
        .find(tile => tile.getAttribute('aria-label').startsWith(arguments[0] + ', ')).getBoundingClientRect())""", name)
    browser.mouse(("move", x, y), ("down",), ("up",))
    browser.settle()


@pytest.mark.parametrize("name", TEN)
def test_every_tab_of_every_trace(browser, page_of, traces, name):
    """Nothing fails, nothing sticks out; what a part says to be empty is empty for the terminal's program too."""
    path = page_of(name)
    empty = not page_data.read(path)[1][0].head["devices"]
    for theme in ("light", "dark") if LONG or name == "transformer" else ("light",):
        if empty:
            browser.driver.get(f"file://{path}#theme={theme}")
            browser.wait("document.getElementById('facts').textContent.includes('no GPU')")
            browser.keep(f"{name}-{theme}")
            continue
        browser.open(path, theme=theme)
        for tab in TABS:
            browser.tab(tab)
            wide, high = browser.script("[document.scrollingElement.scrollWidth, document.scrollingElement.scrollHeight]")
            assert (wide, high) == (1280, 800), tab
            browser.keep(f"{name}-{tab}-{theme}")
    if not empty:
        leaks = json.loads(helpers.vramtrace("leaks", "--json", traces[name]).stdout)
        found = sum(len(device.get("leaks", device.get("findings", ()))) for device in leaks["devices"][:1])
        badge = browser.script("document.querySelector('#tab-leaks .badge')?.textContent ?? '0'")
        assert int(badge) == found


def test_from_a_tile_to_its_stack(browser, page_of, traces):
    """Tile by tile down to a line, then its stack: the same that the trace has for these bytes."""
    browser.open(page_of("transformer"))
    browser.tab("who")
    depth = parts = 0
    while True:
        x, y = browser.script("(() => { const b = document.querySelector('.vp-tile').getBoundingClientRect(); return [b.left + 8, b.top + 8]; })()")
        before, label = len(browser.find_all(".vp-crumbs button")), browser.script("document.querySelector('.vp-tile').getAttribute('aria-label')")
        browser.mouse(("move", x, y), ("down",), ("up",))
        browser.settle()
        depth += 1
        of = browser.script("document.querySelector('.vp-details p')?.textContent.match(/^Of (.*) in .* blocks, this/)?.[1]")
        parts += of is not None
        assert of is None or f", {of}," in label, (of, label)
        if len(browser.find_all(".vp-crumbs button")) == before:
            break
    assert depth >= 4 and parts  # category, module, owner, line
    assert browser.script("document.querySelector('.vp-details .vp-source [aria-current=true]').textContent.length") > 4
    frames = [line.text for line in browser.find_all(".vp-details .vp-stack:first-of-type > li")]
    assert len(frames) >= 2
    size = browser.script("[...document.querySelectorAll('.vp-details dt')].find(t => t.textContent === 'In use').nextSibling.textContent")
    events = helpers.events(traces["transformer"])
    lines = {(frame["file"].rsplit("/", 1)[-1], frame["line"]) for event in events for frame in event.get("stack", ()) if frame.get("line")}
    shown = [re.search(r"([^/]+):(\d+) ", frame) for frame in frames]
    assert any(shown) and {(match[1], int(match[2])) for match in shown if match} - lines == set()
    assert re.fullmatch(r"[\d.]+ \w+ in [\d,]+ blocks?", size)
    # Widens again by the path above the tiles.
    browser.find_all(".vp-crumbs button")[0].click()
    browser.settle()
    assert len(browser.find_all(".vp-crumbs button")) == 1
    browser.keep("transformer-narrowed")


def test_rows_lead_to_the_line(browser, page_of):
    """A row of the table, by the keyboard alone: stack and source stand beside it."""
    browser.open(page_of("leak"))
    browser.tab("who")
    browser.driver.execute_script("document.querySelector('.vp-who button.vp-row').focus()")
    browser.press(Keys.ARROW_DOWN)
    browser.press(Keys.ENTER)
    assert browser.script("document.querySelectorAll('.vp-who tr[aria-selected=true]').length") == 1
    assert browser.script("document.querySelector('.vp-details h3').textContent")
    # A row may be of several stacks; the one that is shown says how much of it is its own.
    browser.wait("location.hash.includes('selection=')")
    blocks = int(browser.script("document.querySelector('.vp-who tr[aria-selected=true]').cells[3].textContent").replace(",", ""))
    own = browser.script("[...document.querySelectorAll('.vp-details dt')].find(t => t.textContent === 'In use').nextSibling.textContent")
    own = int(re.search(r"in ([\d,]+) block", own)[1].replace(",", ""))
    assert own == blocks or f"in {blocks:,} blocks, this is what made most" in browser.find(".vp-details").text
    chosen = browser.script("document.querySelector('.vp-details').textContent")
    browser.driver.refresh()
    browser.wait("document.body && document.body.dataset.ready")
    browser.settle()
    assert browser.script("document.querySelector('.vp-details').textContent") == chosen


def test_search(browser, page_of, traces):
    groups = helpers.report(traces["transformer"])["devices"][0]["peak"]["modules"]
    word = max((group for group in groups if group["name"]), key=lambda group: group["bytes"])["name"]
    browser.open(page_of("transformer"))
    browser.press("/")
    browser.press(word)
    rows = browser.rows(".vp-who")
    shown = browser.script("[...document.querySelectorAll('.vp-who tbody tr')].map(r => r.textContent)")
    assert len(shown) == len(rows) > 0 and all(word in row for row in shown)
    assert sum(exact_bytes(cells["Bytes"][1]) for _, _, cells in rows) >= next(group["bytes"] for group in groups if group["name"] == word)
    browser.press(Keys.CONTROL, "a")
    browser.press("nothing is called this")
    assert "Nothing matches" in browser.find(".vp-who tbody").text


def test_zoom_pan_and_brush(browser, page_of):
    browser.open(page_of("transformer"), "axis=event")
    left, top, width, height = browser.plot()
    whole = browser.state()["zoom"]
    middle = left + width / 2
    # The wheel: what is under the pointer stays there.
    browser.hover(left + width * 0.25, top + height / 2)
    browser.wheel(left + width * 0.25, top + height / 2, -300)
    low, high = browser.state()["zoom"]
    assert high - low < 0.8 * (whole[1] - whole[0])
    assert low + 0.25 * (high - low) == pytest.approx(0.25 * whole[1], abs=0.01 * whole[1])
    # A drag to the left by half the width moves the window by half of itself.
    browser.mouse(("move", middle, top + height / 2), ("down",), ("move", middle - 50, top + height / 2),
                  ("move", middle - width / 4, top + height / 2), ("up",))
    now = browser.state()["zoom"]
    assert now[1] - now[0] == pytest.approx(high - low)
    assert now[0] - low == pytest.approx((high - low) / 4, rel=0.03)
    browser.press("0")
    assert browser.state()["zoom"] == whole
    # Shift and drag on the picture: that stretch fills it.
    browser.with_shift(lambda: browser.mouse(("move", left + width * 0.5, top + 40), ("down",), ("move", left + width * 0.6, top + 40),
                                             ("move", left + width * 0.75, top + 40), ("up",)))
    low, high = browser.state()["zoom"]
    assert (low, high) == pytest.approx((0.5 * whole[1], 0.75 * whole[1]), abs=0.01 * whole[1])
    browser.keep("transformer-zoomed")
    # The brush on the overview.
    box = browser.script("(() => { const b = document.querySelector('#overview canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
    browser.click("#whole")
    browser.mouse(("move", box[0] + box[2] * 0.3, box[1] + box[3] / 2), ("down",), ("move", box[0] + box[2] * 0.4, box[1] + box[3] / 2),
                  ("move", box[0] + box[2] * 0.5, box[1] + box[3] / 2), ("up",))
    low, high = browser.state()["zoom"]
    assert 0.1 * whole[1] < low < high < 0.6 * whole[1] and high - low == pytest.approx(0.2 * whole[1], rel=0.15)
    # By keys.
    browser.driver.execute_script("document.getElementById('chart').focus()")
    browser.press("]")
    assert browser.state()["zoom"][1] - browser.state()["zoom"][0] < high - low


def test_keyboard_walks_changes(browser, page_of, traces):
    """Arrows move by changes: each is named by its event, with the report's numbers."""
    path = page_of("leak")
    _, (trace,) = page_data.read(path)
    browser.open(path)
    browser.driver.execute_script("document.getElementById('chart').focus()")
    browser.press("p")
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.END, Keys.HOME):
        browser.press(key)
        shown = browser.moment()
        state = at_event(traces["leak"], shown["event"])[0]
        assert shown["bytes"]["from driver"] == state["driver_bytes"]
        assert shown["event"] in trace.events
        # What a screen reader says.
        text = browser.script("document.getElementById('chart').getAttribute('aria-valuetext')")
        assert f"{printed_bytes(shown['bytes']['in use'])} in use" in text
    browser.press("?")
    assert browser.script("document.getElementById('help').open")
    browser.press(Keys.ESCAPE)


def test_two_traces_and_their_difference(browser, both, traces):
    """--diff: opens at the comparison, whose sums are those of `vramtrace diff --json`, in the table and in the picture."""
    browser.open(both)
    assert [option.text for option in browser.find_all("#trace option")] == ["lora", "gan"]
    assert browser.script("document.querySelector('#panels > section').id") == "panel-diff"
    diff = json.loads(helpers.vramtrace("diff", "--json", traces["lora"], traces["gan"], check=False).stdout)
    browser.keep("diff")
    device = diff["devices"][0]
    assert device["categories"] and device["lines"] and device["modules"]
    for way in ("categories", "owners", "lines", "modules"):
        choose_way(browser, way)
        tiles = dict(browser.script(
            "[...document.querySelectorAll('#panels .vp-tile')].map(t => t.getAttribute('aria-label').split(', ')).map(t => [t[0], t.at(-1)])"))
        for name, sign, letter in (("Grown", 1, "+"), ("Shrunk", -1, "−")):
            changed = sum(abs(row["change_bytes"]) for row in device[way] if row["change_bytes"] * sign > 0)
            assert tiles.get(name, letter + "0 B") == letter + printed_bytes(changed), (way, name)
        rows = browser.rows()
        shown = sorted(tuple(exact_bytes(cells[column][1]) for column in ("A", "B", "B − A")) for _, _, cells in rows)
        assert shown == sorted((group["a_bytes"], group["b_bytes"], group["change_bytes"]) for group in device[way]), way
        assert all(group["name"] in " ".join(name for _, name, _ in rows) for group in device[way] if way in ("owners", "lines"))


def test_a_difference_leads_to_its_run(browser, both, traces):
    """What grew is opened in B, what shrank in A, by mouse and by keyboard; the way back leads to the comparison."""
    device = json.loads(helpers.vramtrace("diff", "--json", traces["lora"], traces["gan"], check=False).stdout)["devices"][0]
    grown, shrunk = (next(row for row in device["lines"] if row["change_bytes"] * sign > 0) for sign in (1, -1))

    def opened(run, row, size):
        browser.wait("document.body.dataset.ready === 'yes' && vramtrace.store.get().tab === 'who' && vramtrace.model.data.index === arguments[0]", run)
        browser.settle()
        assert browser.script("[...document.querySelector('.vp-who tr[aria-selected=true]').cells].slice(0, 2).map(c => c.title || c.querySelector('[title]')?.title || c.textContent)") == \
            [row["name"], f"{size:,} B"]
        browser.driver.back()
        browser.wait("document.querySelector('#panel-diff .vp-tile')")
        browser.settle()
        choose_way(browser, "lines")

    browser.open(both)
    choose_way(browser, "lines")
    click_tile(browser, grown["name"])
    opened(1, grown, grown["b_bytes"])
    browser.driver.execute_script("[...document.querySelectorAll('.vp-diff button.vp-row')].find(b => b.textContent === arguments[0]).focus()", shrunk["name"])
    browser.press(Keys.ENTER)
    opened(0, shrunk, shrunk["a_bytes"])
    # What the comparison sums up as one owner is searched.
    choose_way(browser, "owners")
    several = next(row for row in device["owners"] if "*" in row["name"] and row["members"] > 1 and row["b_bytes"] == 0)
    browser.driver.execute_script("[...document.querySelectorAll('.vp-diff button.vp-row')].find(b => b.textContent.startsWith(arguments[0])).click()", several["name"])
    browser.wait("document.querySelector('.vp-who .vp-row')")
    browser.settle()
    assert sum(exact_bytes(cells["Bytes"][1]) for _, _, cells in browser.rows(".vp-who")) == several["a_bytes"]


def test_steps_of_two_runs(browser, both, traces):
    """The peaks of equal step numbers beside each other, as `vramtrace steps --json` has them; a click shows the step in the timeline."""
    runs = [{step["step"]: step["peak"] for step in json.loads(helpers.vramtrace("steps", "--json", traces[name]).stdout)["devices"][0]["steps"]
             if step["step"]} for name in ("lora", "gan")]
    browser.open(both)
    browser.driver.execute_script("document.querySelector('.vp-diffsteps').focus()")
    browser.press(Keys.HOME)
    steps = sorted({*runs[0], *runs[1]})
    for number in steps:
        a, b = (printed_bytes(run[number]["used_bytes"]) if number in run else "not there" for run in runs)
        assert browser.script("document.activeElement.getAttribute('aria-valuetext')").startswith(f"Step {number}: A {a}, B {b}")
        browser.press(Keys.ARROW_RIGHT)
    left, top, width, height = browser.script("(b => [b.left, b.top, b.width, b.height])(document.querySelector('.vp-diffsteps').getBoundingClientRect())")
    browser.mouse(("move", left + width / len(steps) / 2, top + height / 2), ("down",), ("up",))
    assert browser.moment()["event"] == runs[0][steps[0]]["event"]


def test_the_comparison_is_accessible(browser, both):
    axe = pytest.importorskip("axe_core_python.selenium")
    for width, height, theme in ((1280, 800, "light"), (1920, 1080, "dark"), (390, 800, "light")):
        browser.open(both, width=width, height=height, theme=theme)
        browser.keep(f"diff-{width}-{theme}")
        assert browser.script("document.scrollingElement.scrollWidth") == width
        assert [(rule["id"], [node["html"][:160] for node in rule["nodes"]][:3]) for rule in axe.Axe().run(browser.driver)["violations"]] == []


def test_layers_that_are_alike_are_one(browser, page_of, traces):
    """A row and a tile, as large as the report says of these modules with all that is in them; each opens to its members."""
    theirs = {group["name"]: group
              for group in helpers.report(traces["transformer"], "--by", "module", "--depth", "3")["devices"][0]["peak"]["modules"]}
    layers = {name: group["bytes"] for name, group in theirs.items() if re.fullmatch(r"layers\.layers\.\d", name)}
    low, high = min(layers.values()), max(layers.values())
    assert len(layers) == 4 and low < high
    browser.open(page_of("transformer"))
    browser.script("((s) => { s.value = 'module'; s.dispatchEvent(new Event('change')); })(document.querySelector('.vp-who select'))")
    table = "[...document.querySelectorAll('.vp-who tbody tr')].map(r => [r.cells[0].innerText, r.cells[1].title])"
    closed = browser.script(table)
    assert closed[0] == [f"layers.layers.0–3\n4 × {low / 2**20:.1f}–{high / 2**20:.1f} MiB", f"{sum(layers.values()):,} B"]
    assert sum(exact_bytes(size) for _, size in closed) == sum(group["bytes"] for group in theirs.values())
    browser.find(".vp-who .vp-row").send_keys(Keys.ENTER)  # and what is opened keeps the focus
    browser.settle()
    assert dict(browser.script(table)[1:5]) == {name: f"{size:,} B" for name, size in layers.items()}
    browser.press(Keys.ENTER)
    assert browser.script(table) == closed
    browser.find(".vp-who .vp-row").click()
    assert len(browser.script(table)) == len(closed) + 4
    # The picture, by mouse: what is chosen there is what the table is about.
    click_tile(browser, "layers.layers.0–3")
    assert browser.find_all(".vp-crumbs button")[-1].text == "layers.layers.0–3"
    category = browser.find_all(".vp-crumbs button")[1].text
    assert exact_bytes(browser.script(table)[0][1]) == sum(theirs[name]["categories"][category] for name in layers)


def test_ranks_on_one_page(browser, traces, tmp_path):
    """A folder is one page: each rank's peak in the tab, and each can be shown."""
    job = tmp_path / "job"
    job.mkdir()
    names = ("lora", "gan", "leak", "two_devices")
    for rank, name in enumerate(names):
        (job / f"rank{rank}.vrt").symlink_to(traces[name])
    path = tmp_path / "job.html"
    helpers.vramtrace("html", "-o", path, job)
    browser.open(path)
    browser.tab("ranks")
    browser.keep("ranks")
    text = browser.find("#panels").text
    for name in names:
        report = helpers.report(traces[name])
        peak = report["devices"][0]["peak"]
        assert f"pid {report['trace']['pid']}" in text
        assert printed_bytes(peak["driver_bytes"]) in text or printed_bytes(peak["block_bytes"]) in text, name
    browser.driver.execute_script("const s = document.getElementById('trace'); s.value = '2'; s.dispatchEvent(new Event('change'))")
    browser.wait("document.body.dataset.ready === 'yes' && vramtrace.model.data.index === 2")
    browser.settle()
    shown = browser.moment()
    assert shown["bytes"]["from driver"] == at_event(traces["leak"], shown["event"])[0]["driver_bytes"]


def test_devices_beside_each_other(browser, page_of, traces):
    browser.open(page_of("two_devices"))
    browser.tab("ranks")
    devices = helpers.report(traces["two_devices"])["devices"]
    rows = browser.rows()
    assert [exact_bytes(cells["Driver peak, without context"][1]) for _, _, cells in rows] == \
        [device["peak"]["driver_bytes"] - device["peak"]["context_bytes"] for device in devices]
    for (_, _, cells), device in zip(rows, devices):
        used = sum(size for name, size in device["peak"]["categories"].items() if name not in ("cached", "context", "host_pinned"))
        assert exact_bytes(cells["Peak in use"][1]) == used
    browser.find_all("#panels button.vp-row")[1].click()
    browser.wait("document.body.dataset.ready === 'yes' && vramtrace.model.device.index === 1")


def test_ten_thousand_rows(browser, page_of, traces):
    """A block a row: sorted, searched, and read to the last one; the sum of what is shown and what is not is exact."""
    browser.open(page_of("many_blocks"))
    browser.tab("who")
    browser.driver.execute_script("const s = document.querySelector('.vp-who select'); s.value = 'block'; s.dispatchEvent(new Event('change'))")
    # Only some are drawn at first, and the last row sums up the others.
    shown, rest = browser.script("[[...document.querySelectorAll('.vp-who tbody tr')].map(r => r.cells[1].title), document.querySelector('.vp-who tfoot').textContent]")
    assert len(shown) == 200 and "more" in rest
    report = helpers.report(traces["many_blocks"])["devices"][0]["peak"]
    rows = browser.rows(".vp-who")
    assert len(rows) >= 10_000
    sizes = [exact_bytes(cells["Bytes"][1]) for _, _, cells in rows]
    assert sum(sizes) == report["block_bytes"] and sizes == sorted(sizes, reverse=True)
    browser.driver.execute_script("[...document.querySelectorAll('.vp-who .vp-sort')].find(b => b.textContent.startsWith('Bytes')).click()")
    browser.settle()
    assert [exact_bytes(title) for title in browser.script("[...document.querySelectorAll('.vp-who tbody tr')].map(r => r.cells[1].title)")] == sizes[::-1][:200]
    browser.keep("many-rows")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_print(browser, page_of, theme):
    """On paper: the picture in its colours, the numbers and the table, whatever the screen's colours are."""
    pdfium = pytest.importorskip("pypdfium2")
    browser.open(page_of("transformer"), "axis=event", theme=theme)
    browser.tab("who")
    colours = browser.script("""(() => { const probe = document.createElement('i'); document.body.append(probe);
        return ['parameter', 'activation', 'optimizer-state'].map(name => { probe.style.color = `var(--c-${name})`; return getComputedStyle(probe).color.match(/\\d+/g).map(Number); }); })()""")
    pdf = base64.b64decode(browser.driver.execute_cdp_cmd("Page.printToPDF", {"landscape": True, "printBackground": True})["data"])
    (browser.folder / f"printed-{theme}.pdf").write_bytes(pdf)
    assert browser.script("document.documentElement.dataset.theme") == theme  # as before
    paper = pdfium.PdfDocument(pdf)
    text = paper[0].get_textpage().get_text_range()
    assert "in use" in text and "optimizer" in text and "Peak" in text
    picture = paper[0].render(scale=1).to_pil().convert("RGB")
    picture.save(browser.folder / f"printed-{theme}.png")
    width, height = picture.size
    assert picture.getpixel((3, 3)) == (255, 255, 255)
    # The timeline's place: the left of the upper half, below what is said.
    timeline = picture.crop((0, round(0.24 * height), round(0.6 * width), round(0.58 * height)))
    found = {colour: count for count, colour in timeline.getcolors(1 << 24)}
    if theme == "light":
        for colour in colours:
            assert sum(count for seen, count in found.items() if max(abs(a - b) for a, b in zip(seen, colour)) <= 6) > 500, colour
    assert sum(count for colour, count in found.items() if min(colour) > 250) < 0.9 * timeline.size[0] * timeline.size[1]


def test_an_incomplete_trace_says_so(browser, page_of):
    browser.open(page_of("killed"))
    text = browser.script("document.getElementById('losses').textContent + document.getElementById('verdict').textContent")
    assert re.search(r"incomplete|killed|not complete|did not end|ended without", text), text


def test_what_advice_would_leave(browser, page_of, traces):
    """Ticked with the mouse and with a key: the peak in the timeline is the report's less what the advice saves; savings add up only
    where the advice touches other memory."""
    _, (trace,) = page_data.read(page_of("transformer"))
    (device,) = helpers.report(traces["transformer"])["devices"]
    advice, peak = device["advice"], device["peak"]["block_bytes"]
    moved = [0] * (trace.head["changes"] + 1)
    for block in (one for one in trace.allocations if trace.class_of(one)["kind"] == "block"):
        moved[block["begin"]] += block["bytes"]
        moved[block["end"] or -1] -= block["bytes"]
    blocks = list(itertools.accumulate(moved[:-1]))
    for number, item in enumerate(advice):
        assert max(map(operator.sub, blocks, trace.savings(0, number))) == peak - item["bytes"] < max(blocks) == peak
    browser.open(page_of("transformer"))
    browser.tab("advice")
    assert "strip" in browser.script("document.body.className")
    one, other = 0, next(i for i in range(1, len(advice)) if i not in advice[0]["same"])
    shared = advice[0]["same"][0]
    browser.find_all(".vp-tick input")[one].click()
    browser.settle()
    assert "strip" not in browser.script("document.body.className")
    left = "vramtrace.model.left.peak"
    assert browser.script(left) == peak - advice[one]["bytes"]
    browser.script("document.querySelectorAll('.vp-tick input')[arguments[0]].focus()", other)
    browser.press(Keys.SPACE)
    assert browser.script(left) < peak - max(advice[one]["bytes"], advice[other]["bytes"])
    said = "document.querySelector('.part-advice [role=status]').textContent"
    assert "the same memory" not in browser.script(said)
    browser.find_all(".vp-tick input")[shared].click()
    browser.settle()
    assert "the same memory" in browser.script(said)
    browser.keep("transformer-what-if")


def test_what_a_trial_measured(browser, traces, tmp_path):
    """The same advice with the file of its trial: what was measured instead of what is predicted, where all of a change is ticked."""
    (device,) = helpers.report(traces["transformer"])["devices"]
    advice, peak = device["advice"], device["peak"]["block_bytes"]
    number = next(i for i, item in enumerate(advice) if item["change"])
    change, bytes_left = advice[number]["change"], peak - 5 * 2**20
    trials = [{"changes": "", "peak_used_bytes": peak}, {"changes": change, "peak_used_bytes": bytes_left},
              {"changes": "</script>", "peak_used_bytes": 1}, {"changes": "arg:name=secret", "peak_used_bytes": 1}, {"changes": "batch=1", "peak_used_bytes": None}]
    (tmp_path / "trials.json").write_text(json.dumps({"trials": trials}))
    helpers.vramtrace("html", "--trials", tmp_path / "trials.json", "-o", tmp_path / "page.html", traces["transformer"])
    for options, there in (([], True), (["--redact"], False)):
        helpers.vramtrace("html", *options, "--trials", tmp_path / "trials.json", "-o", tmp_path / "other.html", traces["transformer"])
        assert ("arg:name=secret" in (tmp_path / "other.html").read_text()) == there
    browser.open(tmp_path / "page.html")
    browser.tab("advice")
    cards = "document.querySelector('.part-advice').textContent"
    assert browser.script(cards).count("Measured") == sum(item["change"] == change for item in advice) == 1
    browser.find_all(".vp-tick input")[number].click()
    browser.settle()
    said = "document.querySelector('.part-advice [role=status]').textContent"
    assert f"measured peak {printed_bytes(bytes_left)}, −5 MiB" in browser.script(said)
    browser.script("document.querySelectorAll('.vp-tick input')[arguments[0]].focus()", (number + 1) % len(advice))
    browser.press(Keys.SPACE)
    assert "predicted peak" in browser.script(said)
    assert "not what vramtrace dryrun --try" in helpers.vramtrace(
        "html", "--trials", traces["transformer"], "-o", tmp_path / "no.html", traces["transformer"], check=False).stderr


def test_requests_in_lanes(browser, page_of, traces):
    """Three threads answer at once: three lanes, in which no two requests overlap."""
    rows = helpers.table(traces["served"], "requests")
    assert len(rows) == 9
    browser.open(page_of("served"), "axis=event")
    seen = browser.script("vramtrace.model.requests.all.map(({first, last, lane}) => [first, last, lane, ...[first, last].map((at) => vramtrace.model.eventOf(at))])")
    assert browser.script("vramtrace.model.requests.lanes") == 3
    for (first, last, lane, begins, ends), row in zip(seen, rows, strict=True):
        assert begins <= int(row["first_event"]) and ends <= int(row["last_event"])
        assert all(other[2] != lane or other[1] <= first or other[0] >= last for other in seen if other[:3] != [first, last, lane])
    left, top, width, height = browser.plot()
    browser.hover(left + width / 2, top + height + 24 + 2 * 16 + 8)
    tip = browser.script("document.getElementById('tip').textContent")
    assert "answers requests" in tip
    number = int(re.match(r"Request (\d+): ", tip)[1]) - 1
    used = [sum(size for category, size in at_event(traces["served"], event)[0]["categories"].items() if category not in APART)
            for event in (seen[number][3] - 1, seen[number][4])]
    assert f"at its end {'+−'[used[1] < used[0]]}{printed_bytes(abs(used[1] - used[0]))}. " in tip, used
    browser.keep("served-lanes")


def test_what_a_leak_will_fill(browser, page_of, traces):
    (device,) = json.loads(helpers.vramtrace("leaks", "--json", traces["leak"]).stdout)["devices"]
    step = device["leaks"][0]["forecast_step"]
    browser.open(page_of("leak"))
    browser.wait("vramtrace.timeline.growth")
    (text,) = browser.script("vramtrace.timeline.growth.found.map(({text}) => text)")
    assert f"GPU full at step {step}, in " in text and printed_bytes(device["leaks"][0]["bytes_per_step"]) in text
    assert f"at about step {step}, in " in browser.script("document.querySelector('.part-leaks').textContent")
    browser.keep("leak-band")


def test_a_backward_without_python_frames_is_named(browser, page_of):
    browser.open(page_of("transformer"))
    browser.script("((s) => { s.value = 'stack'; s.dispatchEvent(new Event('change')); })(document.querySelector('.vp-who select'))")
    browser.settle()
    names = [name for _, name, _ in browser.rows() if "backward of" in name]
    assert names and all(len(name) < 160 for name in names)
    assert any(re.fullmatch(r"\w+Backward\d, backward of \S+ ← \S+\.py:\d+", name) for name in names), names
