"""The page in a real browser, opened from the disk as people do. Needs VRAMTRACE_READERS' packages, Chromium, node and esbuild."""
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

webdriver = pytest.importorskip("selenium.webdriver")
HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "analyzer" / "view" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NEEDED = {"chromium": CHROMIUM, "chromedriver": shutil.which("chromedriver"), "node": shutil.which("node"),
          "esbuild": shutil.which("esbuild")}
pytestmark = pytest.mark.skipif(not all(NEEDED.values()), reason=f"not found: {[name for name, path in NEEDED.items() if not path]}")
TABS = ["who", "flame", "blocks", "map", "leaks", "oom", "frag", "advice", "card", "steps", "source"]


@pytest.fixture(scope="session")
def make(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    template = folder / "template.html"
    subprocess.run([sys.executable, PAGE / "bundle.py", NEEDED["esbuild"], PAGE / "page", template, "--html"], check=True)

    def page(name, **options):
        path = folder / f"{name}.html"
        if not path.exists():
            subprocess.run([NEEDED["node"], HERE / "make.mjs", template, path, json.dumps(options)], check=True)
        return path
    return page


@pytest.fixture(scope="session")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(NEEDED["chromedriver"]))
    yield browser
    browser.quit()


@pytest.fixture
def look(driver):
    """Opens a page and waits until it has read its trace; returns what it says of that: "yes" or "no"."""
    def opened(path, fragment="", width=1280, height=800):
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                               {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        driver.get("about:blank")
        driver.get_log("browser")
        driver.get(f"file://{path}{fragment}")
        return wait(driver, "return document.body && document.body.dataset.ready")
    return opened


def wait(driver, script):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if value := driver.execute_script(script):
            return value
        time.sleep(0.02)
    raise AssertionError(f"never true: {script}")


def settle(driver):
    """Until what was asked of the page is drawn."""
    driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))")


def press(driver, *keys):
    driver.switch_to.active_element.send_keys(*keys)
    settle(driver)


def state(driver):
    return driver.execute_script("return vramtrace.store.get()")


def moment(driver):
    """The table of the moment: {label: exact bytes}."""
    rows = driver.execute_script("return [...document.querySelectorAll('#instant tbody tr, #instant tfoot tr')].map(r => [r.cells[0].textContent, r.cells[1].title])")
    return {label: int(re.sub(r"\D", "", exact)) for label, exact in rows}


def complaints(driver):
    return [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]


def test_opens_without_a_complaint_and_asks_nobody(driver, look, make):
    assert look(make("plain")) == "yes"
    for tab in TABS:
        driver.execute_script("vramtrace.store.set({tab: arguments[0]})", tab)
        settle(driver)
        assert driver.execute_script("return document.querySelector('#panels > section').id") == f"panel-{tab}"
        assert not driver.execute_script("return document.querySelector('#panels .trouble')")
        assert tab != "steps" or "served\n2 requests" in driver.find_element("id", "panels").text
    assert complaints(driver) == []
    assert all(name.startswith("blob:") for name in driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)"))
    assert driver.execute_script("return document.querySelectorAll('[onclick],[onload],[onerror]').length") == 0


def test_numbers_of_a_moment_are_true(driver, look, make):
    page = make("plain")
    rows = json.loads(Path(f"{page}.json").read_text())
    assert len(rows) > 20
    ever = {name for row in rows for name, size in row["categories"].items() if size}
    labels = {"optimizer_state": "optimizer", "host_pinned": "pinned host"}
    for row in rows[::3]:
        look(page, f"#a={row['event']}")
        settle(driver)
        shown = moment(driver)
        assert shown.pop("from driver") == row["driver"]
        in_use = shown.pop("in use")
        shown.pop("GPU size")
        assert shown == {labels.get(name, name): size for name, size in row["categories"].items() if name in ever}
        assert in_use == sum(size for name, size in row["categories"].items() if name not in ("cached", "context", "host_pinned"))


def test_differences_are_b_less_a(driver, look, make):
    page = make("plain")
    rows = json.loads(Path(f"{page}.json").read_text())
    a, b = rows[9], rows[17]
    look(page, f"#a={a['event']}&b={b['event']}")
    settle(driver)
    shown = driver.execute_script("return [...document.querySelectorAll('#instant tbody tr, #instant tfoot tr')].map(r => [r.cells[0].textContent, r.cells[2].title])")
    shown = {label: int(re.sub(r"\D", "", exact)) * (-1 if exact.startswith("−") else 1) for label, exact in shown if exact}
    assert shown["from driver"] == b["driver"] - a["driver"]
    for name in ("activation", "parameter", "gradient", "temporary", "cached"):
        assert shown.get(name, 0) == b["categories"][name] - a["categories"][name], name
    assert any(shown.values())


def test_a_link_restores_what_was_chosen(driver, look, make):
    look(make("plain"))
    driver.find_elements("css selector", ".vp-table tbody button.vp-row")[2].click()
    address = wait(driver, "return location.hash.includes('selection=') && location.hash")
    chosen = "return document.querySelector('.vp-table tr[aria-selected=true] th').textContent"
    before, details = driver.execute_script(chosen), driver.find_element("css selector", ".vp-details").text
    look(make("plain"), address)
    assert driver.execute_script(chosen) == before
    assert driver.find_element("css selector", ".vp-details").text == details


def test_picture_is_to_scale(driver, look, make):
    """Heights of colours in the timeline, against the numbers of that moment."""
    look(make("plain"), "#axis=event&scale=use")
    settle(driver)
    heights, scale, high, of = driver.execute_script("""
        const {timeline: t, model, colours} = vramtrace, a = t.area, ctx = t.base.getContext('2d');
        const column = Math.floor(t.picture.count * 0.637), change = t.picture.change[column];
        const x = Math.floor(a.left + (column + 0.5) * a.width / t.picture.count);
        const data = ctx.getImageData(x, a.top, 1, a.height).data, found = {};
        for (let y = 0; y < data.length; y += 4) {
            const hex = '#' + [0, 1, 2].map(i => data[y + i].toString(16).padStart(2, '0')).join('');
            const category = model.stacked.map(c => model.categories[c].name).find(name => colours.of(name) === hex);
            if (category) found[category] = (found[category] || 0) + 1;
        }
        const now = model.state(change);
        return [found, t.scale, Math.round(a.height), Object.fromEntries(model.stacked.map(c => [model.categories[c].name, now.categories[c]]))];
    """)
    tall = {name: size for name, size in of.items() if size / scale * high > 6}
    assert len(tall) >= 3
    for name, size in tall.items():
        assert abs(heights[name] - size / scale * high) <= 4, name  # lines between bands and of the grid take some points


def test_keys(driver, look, make):
    from selenium.webdriver.common.keys import Keys
    look(make("plain"))
    body = driver.find_element("tag name", "body")
    peak = driver.execute_script("return vramtrace.model.peak")
    whole = state(driver)["zoom"]
    body.send_keys(Keys.ARROW_LEFT)
    settle(driver)
    assert state(driver)["pinA"] == peak - 1
    press(driver, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert state(driver)["pinA"] == peak + 1
    press(driver, "b")
    press(driver, "p")
    assert (state(driver)["pinA"], state(driver)["pinB"]) == (peak, peak + 1)
    wait(driver, "return document.getElementById('live').textContent.includes(' B: ')")
    press(driver, "b")
    assert state(driver)["pinB"] is None
    press(driver, "]")
    low, high = state(driver)["zoom"]
    assert high - low < whole[1] - whole[0]
    press(driver, "0")
    assert state(driver)["zoom"] == whole
    press(driver, "4")
    assert state(driver)["tab"] == "map"
    assert driver.execute_script("return document.activeElement.id") == "tab-map"
    press(driver, Keys.ARROW_RIGHT)
    assert state(driver)["tab"] == "leaks" and state(driver)["pinA"] == peak
    press(driver, "/")
    assert driver.execute_script("return document.activeElement.id") == "search"
    press(driver, "layers.3")
    assert state(driver)["filter"] == "layers.3" and state(driver)["tab"] == "who"
    shown = driver.execute_script("return [...document.querySelectorAll('.vp-who .vp-table tbody th')].map(e => e.textContent)")
    assert shown and all("layers.3" in name for name in shown)
    press(driver, Keys.ESCAPE)
    press(driver, "?")
    assert driver.execute_script("return document.getElementById('help').open")
    press(driver, Keys.ESCAPE)
    assert not driver.execute_script("return document.getElementById('help').open")


def test_steps_are_walked_from_peak_to_peak(driver, look, make):
    from selenium.webdriver.common.keys import Keys
    look(make("plain"))
    driver.find_element("id", "chart").send_keys(Keys.SHIFT, Keys.ARROW_RIGHT)
    settle(driver)
    step, event, wanted = driver.execute_script("""
        const {model, store} = vramtrace, now = model.state(store.get().pinA);
        return [now.step, now.event, model.steps.find(s => s.step === now.step).peak_event]""")
    assert event == wanted
    assert step == driver.execute_script("return vramtrace.model.stepOf(vramtrace.model.peak)") + 1


def test_everything_is_reached_by_tab_and_shows_it(driver, look, make):
    from selenium.webdriver.common.keys import Keys
    look(make("plain"))
    seen = []
    for _ in range(60):
        press(driver, Keys.TAB)
        name, outlined = driver.execute_script("""
            const e = document.activeElement, shown = e.matches('input[type=radio]') ? e.nextElementSibling : e;
            return [e === document.body ? '' : e.id || `${e.tagName} ${e.className}`, getComputedStyle(shown).outlineStyle !== 'none']""")
        if name:
            assert outlined, name
            seen.append(name)
    for wanted in ("search", "compare", "patterns", "theme", "help-button", "scale", "chart", "splitter", "tab-who"):
        assert wanted in seen, (wanted, seen)


def classes(driver):
    return set(driver.execute_script("return document.body.className").split())


def test_room_by_mouse_and_keys(driver, look, make):
    """The strip above tabs that do not need the timeline, the splitter, and a part over the whole window."""
    from selenium.webdriver.common.keys import Keys
    look(make("plain"))
    high = "return document.getElementById('stage').clientHeight"
    assert classes(driver) == set() and driver.execute_script(high) > 300
    driver.find_element("id", "tab-steps").click()
    settle(driver)
    assert classes(driver) == {"strip"} and driver.execute_script(high) < 80
    webdriver.ActionChains(driver).drag_and_drop_by_offset(driver.find_element("id", "splitter"), 0, 250).perform()
    settle(driver)
    assert classes(driver) == set() and driver.execute_script(high) > 250
    driver.find_element("id", "splitter").send_keys(*[Keys.ARROW_UP] * 12)
    settle(driver)
    assert classes(driver) == {"strip"}
    driver.find_element("id", "tab-blocks").click()
    settle(driver)
    press(driver, "f")
    assert classes(driver) == {"strip", "full"}
    assert not driver.find_element("id", "top").is_displayed()
    press(driver, Keys.ESCAPE)
    wait(driver, "return document.body.className === ''")
    driver.find_element("id", "full").click()
    settle(driver)
    assert "full" in classes(driver)
    driver.find_element("id", "tab-who").click()
    settle(driver)
    assert classes(driver) == set() and not driver.find_element("id", "full").is_displayed()
    assert complaints(driver) == []


def test_a_double_click_zooms_to_the_step(driver, look, make):
    look(make("plain"), "#axis=event")
    area = driver.execute_script("return vramtrace.timeline.area")
    chart, whole = driver.find_element("id", "chart"), state(driver)["zoom"]
    def double():
        webdriver.ActionChains(driver).move_to_element_with_offset(
            chart, int(area["left"] + area["width"] / 2 - chart.size["width"] / 2), 0).double_click().perform()
        settle(driver)
    double()
    first, last = driver.execute_script("""const {model, store} = vramtrace, step = model.steps.find(s => s.step === model.stepOf(store.get().pinA));
        return [step.first_event, step.last_event]""")
    assert state(driver)["zoom"] == [first, last + 1]
    double()
    assert state(driver)["zoom"] == whole


def test_back_goes_to_what_was_seen_before(driver, look, make):
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")  # a history of its own: it counts to 50 only
    look(make("plain"))
    wait(driver, "return location.hash")
    start, entries = driver.execute_script("return location.hash"), driver.execute_script("return history.length")
    chart = driver.find_element("id", "chart")
    webdriver.ActionChains(driver).move_to_element(chart).click_and_hold().move_by_offset(40, 0).move_by_offset(40, 0).release().perform()
    for _ in range(5):
        webdriver.ActionChains(driver).scroll_from_origin(webdriver.common.actions.wheel_input.ScrollOrigin.from_element(chart), 0, -120).perform()
    zoomed = wait(driver, "return location.hash.includes('zoom=') && location.hash")
    assert driver.execute_script("return history.length") == entries + 1
    driver.find_element("id", "tab-map").click()
    settle(driver)
    assert driver.execute_script("return history.length") == entries + 2
    driver.back()
    wait(driver, "return vramtrace.store.get().tab === 'who'")
    assert driver.execute_script("return location.hash") == zoomed
    driver.back()
    wait(driver, "const {model, store} = vramtrace, axis = model.axis('time'); return store.get().zoom[1] === axis.hi")
    assert driver.execute_script("return location.hash") == start
    driver.forward()
    driver.forward()
    wait(driver, "return vramtrace.store.get().tab === 'map'")
    driver.close()
    driver.switch_to.window(first)


def test_link_and_picture_are_copied(driver, look, make):
    look(make("plain"), "#tab=steps")
    driver.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    driver.find_element("id", "copy-link").click()
    wait(driver, "return document.getElementById('done').textContent === 'Link copied.'")
    pasted = "const done = arguments[0]; navigator.clipboard"
    assert driver.execute_async_script(f"{pasted}.readText().then(done)") == driver.current_url
    driver.find_element("id", "copy-picture").click()
    wait(driver, "return document.getElementById('done').textContent === 'Picture copied.'")
    wide, high, colours = driver.execute_async_script(pasted + """.read().then(([item]) => item.getType("image/png")).then(createImageBitmap).then((image) => {
        const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
        context.drawImage(image, 0, 0);
        const points = new Set(new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer));
        done([image.width, image.height, vramtrace.model.stacked.filter(c => {
            const [r, g, b] = vramtrace.colours.of(vramtrace.model.categories[c].name).match(/\\w\\w/g).map(part => parseInt(part, 16));
            return points.has(((255 << 24) | (b << 16) | (g << 8) | r) >>> 0); }).length]); })""")
    size = driver.execute_script("return [vramtrace.timeline.width, vramtrace.timeline.height]")
    assert wide == size[0] and high > size[1] + 40 and colours >= 4


def test_a_link_shows_what_its_sender_saw(driver, look, make):
    page = make("plain")
    look(page)
    driver.execute_script("""const {store, model} = vramtrace, axis = model.axis('event');
        store.set({axis: 'event', zoom: [400, 900], pinA: model.changeAtEvent(700), pinB: model.changeAtEvent(500), tab: 'steps', filter: 'a&b', theme: 'dark'})""")
    address = wait(driver, "return location.hash.includes('tab=steps') && location.hash")
    before, numbers = state(driver), moment(driver)
    look(page, address)
    settle(driver)
    after = state(driver)
    for key in ("axis", "zoom", "pinA", "pinB", "tab", "filter", "theme"):
        assert after[key] == before[key], key
    assert moment(driver) == numbers
    assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"


def test_another_trace_and_its_link(driver, look, make):
    page = make("two", traces=2, events=1500)
    look(page)
    first = moment(driver)
    driver.execute_script("const s = document.getElementById('trace'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    wait(driver, "return document.body.dataset.ready === 'yes' && vramtrace.model.data.index === 1")
    settle(driver)
    second = moment(driver)
    assert first and second
    address = wait(driver, "return location.hash.includes('trace=1') && location.hash")
    look(page, address)
    settle(driver)
    assert moment(driver) == second
    assert driver.execute_script("return [...document.querySelectorAll('[role=tab]')].some(t => t.id === 'tab-ranks')")


def test_where_no_worker_may_start(driver, look, make, tmp_path):
    page = tmp_path / "alone.html"
    page.write_text(make("plain").read_text().replace("worker-src blob:", "worker-src 'none'"))
    assert look(page) == "yes"
    settle(driver)
    alone = moment(driver)
    look(make("plain"))
    settle(driver)
    assert moment(driver) == alone


def test_an_old_browser_is_told(driver, look, make, tmp_path):
    page = tmp_path / "old.html"
    page.write_text(make("plain").read_text().replace("worker-src blob:", "worker-src 'none'"))
    script = driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": "delete window.DecompressionStream"})
    try:
        assert look(page) == "no"
        assert "Open the page with Firefox 113" in driver.find_element("id", "trouble").text
    finally:
        driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


@pytest.mark.parametrize("what", ["blob", "base64", "head", "cut"])
def test_damage_is_told(driver, look, make, tmp_path, what):
    text = make("plain").read_text()
    start = text.index('id="vramtrace-data">') + len('id="vramtrace-data">')
    end = text.index("</script>", start)
    data = text[start:end]
    text = {"blob": text[:start] + data[:5000] + "AAAABBBB" * 40 + data[5320:] + text[end:],
            "base64": text[:start] + "!!" + data + text[end:],
            "head": text.replace('"vramtrace.page/2"', '"vramtrace.page/9"', 1), "cut": text[:start] + data[:3000] + text[end:]}[what]
    page = tmp_path / f"{what}.html"
    page.write_text(text)
    assert look(page) == "no"
    assert "vramtrace html" in driver.find_element("id", "trouble").text
    assert driver.find_element("id", "trouble").get_attribute("role") == "alert"


def test_hostile_names_are_only_shown(driver, look, make):
    assert look(make("hostile", hostile=True)) == "yes"
    for tab in TABS:
        driver.execute_script("vramtrace.store.set({tab: arguments[0]})", tab)
        settle(driver)
    assert driver.execute_script("return document.body.dataset.hurt") is None
    assert driver.execute_script("return document.images.length") == 0
    assert "<img src=x" in driver.find_element("id", "losses").text
    driver.execute_script("vramtrace.store.set({tab: 'who'})")
    settle(driver)
    assert driver.execute_script("return /[\\u202a-\\u202e\\u0007]/.test(document.body.innerText)") is False
    assert complaints(driver) == []


def test_gaps_are_hatched_and_said(driver, look, make):
    page = make("gaps", gaps=[[0.3, 0.7]])
    look(page, "#axis=event")
    settle(driver)
    legend = "[vramtrace.timeline.legend.hidden, vramtrace.timeline.legend.textContent]"
    assert driver.execute_script(f"return {legend}") == [False, "events not shown individually"]
    tip = "[!document.getElementById('tip')?.checkVisibility(), document.getElementById('tip')?.textContent, vramtrace.store.get().hover]"

    def at(share):
        chart = driver.find_element("id", "chart")
        area = driver.execute_script("return vramtrace.timeline.area")
        webdriver.ActionChains(driver).move_to_element_with_offset(
            chart, int(area["left"] + share * area["width"] - chart.size["width"] / 2), 0).perform()
        settle(driver)
        return driver.execute_script(f"return {tip}")

    hidden, text, hover = at(0.5)
    assert not hidden and text == "1,000 events not shown individually" and hover is None
    hidden, _, hover = at(0.1)
    assert hidden and hover is not None
    points = driver.execute_script("""const t = vramtrace.timeline, c = t.base.getContext("2d"), {left, top, width, height} = t.area;
        const of = (share) => new Set(new Uint32Array(c.getImageData(left + share * width, top, 40, height).data.buffer));
        return [of(0.5).size, of(0.1).size]""")
    assert points[0] < points[1]  # lines and ticks only
    look(make("plain"), "#axis=event")
    assert driver.execute_script(f"return {legend}")[0]


def test_ten_thousand_owners_are_one_tile(driver, look, make):
    from selenium.webdriver.common.keys import Keys
    look(make("owners", events=12000, owners=10000))
    settle(driver)

    def tile(name):
        return driver.find_element("css selector", f".vp-tile[aria-label^='{name}, ']")

    wait(driver, "return document.querySelector('.vp-tile')")
    # By mouse: all, then a hundred of them, then each.
    assert tile("table.0–9999").text.split("\n") == ["table.0–9999", "10,000 × 2 MiB"]
    tile("table.0–9999").click()
    settle(driver)
    portions = driver.find_elements("css selector", ".vp-tree > .vp-tile:not(.vp-rest)")
    names = [portion.get_attribute("aria-label").split(", ")[0] for portion in portions]
    assert {f"table.{i}–{i + 99}" for i in range(0, 10000, 100)} <= set(names)
    # By keyboard: in and out again, and the row of the table.
    driver.execute_script("arguments[0].focus()", tile("table.4200–4299"))
    press(driver, Keys.ENTER)
    assert tile("table.4242").get_attribute("aria-label").startswith("table.4242, 2 MiB, ")
    assert driver.find_element("css selector", ".vp-who .vp-row").text == "table.4200–4299 float32 1024x1024\n100 × 2 MiB"
    driver.find_element("css selector", ".vp-who .vp-row").send_keys(Keys.ENTER)
    settle(driver)
    assert [row.text.split()[0] for row in driver.find_elements("css selector", ".vp-who .vp-row")][1:4] == ["table.4200", "table.4201", "table.4202"]
    press(driver, Keys.ENTER)
    assert len(driver.find_elements("css selector", ".vp-who .vp-row")) == 1
    driver.execute_script("arguments[0].focus()", tile("table.4242"))
    press(driver, Keys.BACKSPACE)
    press(driver, Keys.BACKSPACE)
    assert tile("table.0–9999") and complaints(driver) == []


def test_a_trace_without_a_device(driver, look, make):
    assert look(make("empty", empty=True)) == "yes"
    assert "contains no GPU allocations" in driver.find_element("id", "panels").text
    assert complaints(driver) == []


@pytest.mark.parametrize("width", [1280, 900])
def test_nothing_sticks_out(driver, look, make, width):
    look(make("plain"), width=width)
    for tab in TABS:
        driver.execute_script("vramtrace.store.set({tab: arguments[0]})", tab)
        settle(driver)
        wide, high, inner = driver.execute_script("const d = document.scrollingElement; return [d.scrollWidth, d.scrollHeight, innerHeight]")
        assert wide <= width, tab
        assert high <= inner, tab
    for selector in ("#instant .buttons", "#overview", "#help-button"):
        right = driver.execute_script("return document.querySelector(arguments[0]).getBoundingClientRect().right", selector)
        assert right <= width, selector


def test_print(driver, look, make):
    look(make("plain"), "#theme=dark")
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        hidden = driver.execute_script("return [...document.querySelectorAll('#top button, #top select, #search, #splitter, #instant button')].every(e => !e.getClientRects().length)")
        assert hidden
        assert driver.execute_script("return document.documentElement.dataset.theme") == "light"
        assert driver.execute_script("return document.querySelector('#chart canvas').getBoundingClientRect().height") > 200
        assert driver.find_element("css selector", "#instant table").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_rules_of_accessibility(driver, look, make, theme):
    from axe_core_python.selenium import Axe
    look(make("plain"), f"#theme={theme}&b=700")
    for tab in TABS:
        driver.execute_script("vramtrace.store.set({tab: arguments[0]})", tab)
        settle(driver)
        broken = Axe().run(driver)["violations"]
        assert [(rule["id"], [node["html"][:120] for node in rule["nodes"]][:3]) for rule in broken] == [], tab
