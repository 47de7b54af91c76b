"""Bands of the timeline and the flame graph in a browser, by mouse and by keys: sums made from all of the page's allocations."""
import itertools
import json
import re
import sys
from pathlib import Path

from test_browser import complaints, driver, look, make, press, pytestmark, settle, wait, webdriver  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))
import page_data  # noqa: E402

Keys = webdriver.Keys
APART = ("cached", "context", "host_pinned")


def in_use(trace, change):
    """(class, allocation) of what is in use after a change."""
    return [(trace.class_of(one), one) for one in trace.alive(change)
            if trace.class_of(one)["counted"] and trace.class_of(one)["category"] not in APART]


def legend(browser):
    """{label: exact bytes} of the bands."""
    rows = browser.execute_script("return [...document.querySelectorAll('#instant tbody tr')].map(r => [r.cells[0].textContent, r.cells[1].title])")
    return {label: int(re.sub(r"\D", "", exact)) for label, exact in rows}


def choose(browser, by):
    """By the keys of the list."""
    browser.find_element("id", "by").send_keys(Keys.HOME, *[Keys.ARROW_DOWN] * ["category", "module", "line", "owner"].index(by))
    wait(browser, f"return vramtrace.timeline.source.by === '{by}'")
    settle(browser)


def test_bands_of_modules_lines_and_owners(driver, look, make):
    page = make("plain")
    _, (trace,) = page_data.read(page)
    look(page, f"#a={trace.events[700]}")
    alive = in_use(trace, 700)
    for by, name in (("module", lambda row: row["module"] or "no module"), ("line", lambda row: row["place_name"]),
                     ("owner", lambda row: row["owner"] or f"{row['module']}{' · ' if row['module'] else ''}{row['category']}")):
        choose(driver, by)
        shown, sums = legend(driver), {}
        for row, one in alive:
            sums[name(row)] = sums.get(name(row), 0) + one["bytes"]
        assert sum(shown.values()) == sum(sums.values())
        assert shown.pop("the rest") and len(shown) == 10
        for label, size in shown.items():
            if not label.endswith("input") and "append_loss" not in label and "workspace" not in label:  # named by their line too
                assert size == sums.get(label, 0), label
    wait(driver, "return location.hash.includes('by=owner')")
    look(page, driver.execute_script("return location.hash"))
    wait(driver, "return vramtrace.timeline.source.by === 'owner'")
    # A category that has nothing at this moment stays in the legend.
    choose(driver, "category")
    held = {trace.class_of(one)["category"] for one in trace.allocations} - set(APART)
    assert set(legend(driver)) == {{"optimizer_state": "optimizer"}.get(name, name) for name in held} and 0 in legend(driver).values()
    assert complaints(driver) == []


def test_search_lights_its_band(driver, look, make):
    page = make("plain")
    _, (trace,) = page_data.read(page)
    look(page, f"#a={trace.events[700]}&axis=event")
    press(driver, "/")
    press(driver, "layers.3")
    text = wait(driver, "return document.querySelector('.found').title")
    has = [row["module"] == "layers.3" or row["module"].startswith("layers.3.") for row in trace.classes]
    changed = [0] * len(trace.events)
    for one in trace.allocations:
        if has[one["klass"]]:
            changed[one["begin"]] += one["bytes"]
            if one["end"] is not page_data.NEVER:
                changed[one["end"]] -= one["bytes"]
    sums = list(itertools.accumulate(changed))
    here, peak = sums[700], max(sums)
    assert [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)] == [here, peak]
    # Its band is on the ground, in its own colour; all others are pale.
    colours = driver.execute_script("""const {base, area, source, picture, scale} = vramtrace.timeline, column = picture.change.indexOf(700) >= 0
            ? picture.change.indexOf(700) : picture.change.findIndex(c => c > 690);
        const x = Math.floor(area.left + (column + 0.5) * area.width / picture.count), own = picture.vectors[column * picture.width] / scale * area.height;
        const data = base.getContext('2d').getImageData(x, area.top + area.height - Math.floor(own / 2) - 1, 1, 1).data;
        return ['#' + [...data.slice(0, 3)].map(v => v.toString(16).padStart(2, '0')).join(''), vramtrace.colours.of('band_found')]""")
    assert colours[0] == colours[1]
    press(driver, "no such thing")
    assert "is in no name" in wait(driver, "return document.querySelector('.found').textContent.includes('thing') && document.querySelector('.found').textContent")


def test_driver_far_above_use_is_seen(driver, look, make):
    """It is drawn above a break of the axis, at any height that does not have it, with its value; bands stay to scale below."""
    page = make("plain")
    _, (trace,) = page_data.read(page)
    most = max(page_data.sums_at(trace, change, 0)[1] for change in range(0, len(trace.events), 50))
    look(page, "#axis=event")
    driver_bytes, used, cut, scale, texts = driver.execute_script("""const t = vramtrace.timeline, used = [], texts = [], {fillText} = CanvasRenderingContext2D.prototype;
        for (let i = 0; i < t.picture.count; i++) used.push(vramtrace.model.state(t.picture.change[i]).used_bytes);
        CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) { texts.push(text); return fillText.call(this, text, ...rest); };
        t.draw(); CanvasRenderingContext2D.prototype.fillText = fillText;
        return [t.driver, Math.max(...used), t.break, t.scale, texts]""")
    assert driver_bytes == most > 4 * used and used < cut < scale < most
    assert any(text.startswith("not to scale: up to 1004 MiB from the driver") for text in texts) and "1004 MiB" in texts
    line, area = driver.execute_script("""const t = vramtrace.timeline; return [t.nearer(t.driver) / t.scale, t.nearer(t.break) / t.scale]""")
    assert 0.9 < line < 1 and 0.5 < area < 0.8


def tree_point(browser, row, share):
    """The middle of a row of the flame graph, at a share of its width."""
    box = browser.find_element("css selector", ".vp-flame canvas")
    webdriver.ActionChains(browser).move_to_element_with_offset(box, int((share - 0.5) * box.size["width"]), int(row * 18 + 9 - box.size["height"] / 2)).perform()
    settle(browser)
    return browser.execute_script("return document.querySelector('.vp-flame .vp-hover').textContent")


def told(text):
    """(name, exact bytes, blocks) of a frame's text."""
    name, size, blocks = re.match(r"(\S+ \S+).*?: .*?\(([\d,]+) B\) · .*? · ([\d,]+) block", text).groups()
    return name, int(size.replace(",", "")), int(blocks.replace(",", ""))


def frames_of(trace, alive):
    """{frame's name: (bytes, blocks)} of the frames that allocated."""
    sums = {}
    for row, one in alive:
        function, file, line = trace.frames(row["stack"])[0]
        name = f"{file.rsplit('/', 1)[-1]}:{line} {function}"
        size, blocks = sums.get(name, (0, 0))
        sums[name] = (size + one["bytes"], blocks + 1)
    return sums


def test_flame_graph_by_mouse(driver, look, make):
    page = make("plain")
    _, (trace,) = page_data.read(page)
    look(page, f"#a={trace.events[700]}&tab=flame&axis=event")
    alive = in_use(trace, 700)
    sums = frames_of(trace, alive)
    name, size, blocks = told(tree_point(driver, 1, 0.5))
    assert (name, size, blocks) == ("train.py:88 train", sum(one["bytes"] for _, one in alive), len(alive))
    text = tree_point(driver, 2, 0.02)
    largest, size, blocks = told(text)
    assert (size, blocks) == sums[largest] == max(sums.values()) and "/home/user/model.py:" in text and "most is activation: 100 %" in text
    # A click zooms into the frame, the path above leads back.
    webdriver.ActionChains(driver).click().perform()
    settle(driver)
    assert told(tree_point(driver, 2, 0.98))[0] == largest
    driver.find_elements("css selector", ".vp-flame .vp-crumbs button")[0].click()
    settle(driver)
    assert told(tree_point(driver, 2, 0.6))[0] != largest
    # What was made in the window and is alive at its end.
    driver.find_element("css selector", ".vp-flame .vp-toggle button:last-child").click()
    whole = driver.find_element("css selector", ".vp-flame .vp-heading").text
    driver.execute_script("vramtrace.store.set({zoom: [arguments[0], arguments[1]]})", trace.events[520], trace.events[700])
    settle(driver)
    first, last = trace.change_at(trace.events[520] - 1) + 1, trace.change_at(trace.events[700] - 1)
    made = [(row, one) for row, one in in_use(trace, last) if one["begin"] >= first]
    # A part that is slow to draw waits until the pointer rests.
    wait(driver, "return (text => text.includes('made from') && text !== " + json.dumps(whole)
         + ")(document.querySelector('.vp-flame .vp-heading').innerText)")
    assert told(tree_point(driver, 1, 0.5))[1:] == (sum(one["bytes"] for _, one in made), len(made))
    name, size, blocks = told(tree_point(driver, 2, 0.01))
    assert (size, blocks) == frames_of(trace, made)[name]
    assert complaints(driver) == []


def test_flame_graph_by_keys(driver, look, make):
    page = make("plain")
    _, (trace,) = page_data.read(page)
    look(page, f"#a={trace.events[700]}&tab=flame")
    sums = frames_of(trace, in_use(trace, 700))
    order = sorted(sums.values(), reverse=True)
    hint = "return document.querySelector('.vp-flame .vp-hover').textContent"
    driver.execute_script("document.querySelector('.vp-flame canvas').focus()")
    press(driver, Keys.ARROW_DOWN, Keys.ARROW_DOWN)
    seen = [told(driver.execute_script(hint))]
    for _ in range(3):
        press(driver, Keys.ARROW_RIGHT)
        seen.append(told(driver.execute_script(hint)))
    assert [size for _, size, _ in seen] == [size for size, _ in order[:4]] and all((size, blocks) == sums[name] for name, size, blocks in seen)
    wait(driver, f"return document.getElementById('live').textContent.includes('{seen[-1][0]}')")
    press(driver, Keys.ENTER)
    crumbs = "return [...document.querySelectorAll('.vp-flame .vp-crumbs button')].map(b => b.textContent)"
    assert driver.execute_script(crumbs)[-1] == seen[-1][0]
    press(driver, Keys.ESCAPE, Keys.ESCAPE)
    assert driver.execute_script(crumbs) == ["all"]
    assert state_of(driver)["pinA"] == 700  # the arrows were not the timeline's
    # The search lights frames here too, and says their sum.
    press(driver, "/")
    press(driver, "addmm")
    found = wait(driver, "const p = document.querySelector('.vp-flame [role=status]'); return p.textContent && p.title")
    total = sum(size for name, (size, _) in sums.items() if "addmm" in name)
    assert state_of(driver)["tab"] == "flame" and found == f"{total:,} B in {sum(blocks for name, (_, blocks) in sums.items() if 'addmm' in name):,} blocks"
    assert driver.execute_script("return vramtrace.timeline.source.bandsAt(700)[0]") == total


def state_of(browser):
    return browser.execute_script("return vramtrace.store.get()")
