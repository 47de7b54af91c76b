"""A browser as a person uses it: real moves of the mouse, real keys, and what is seen afterwards."""
import base64
import json
import pathlib
import re
import shutil
import sys
import time

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.action_builder import ActionBuilder
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from helpers import shown_bytes as printed_bytes  # noqa: E402,F401

TABS = ("who", "flame", "blocks", "map", "leaks", "oom", "frag", "advice", "card", "steps", "source")
WAIT_SECONDS = 60


class Browser:
    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        # No name resolves, and all that is not this machine goes to a proxy that is not there.
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                         "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                         "--proxy-server=127.0.0.1:9", "--force-prefers-reduced-motion"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        self.folder = folder
        self.asked, self.said = [], []

    def __enter__(self):
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.emulateNetworkConditions",
                                    {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0})
        return self

    def __exit__(self, *_):
        self.driver.quit()

    # ---- Opening ----

    def open(self, path, fragment="", width=1280, height=800, theme=None):
        """Until the trace is read, and drawn."""
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        self.collect()
        self.driver.get("about:blank")
        if theme:
            fragment = f"{fragment}&theme={theme}" if fragment else f"theme={theme}"
        self.driver.get(f"file://{path}{'#' + fragment if fragment else ''}")
        self.wait("document.body && document.body.dataset.ready")
        trouble = self.script("document.getElementById('trouble').textContent")
        assert not trouble, trouble
        self.settle()

    def script(self, expression, *arguments):
        return self.driver.execute_script(f"return {expression}", *arguments)

    def wait(self, expression, *arguments):
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            value = self.script(expression, *arguments)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"never true: {expression}")

    def settle(self):
        """Until what was asked of the page is drawn: a part may wait for the pointer to rest (tabs.js)."""
        self.driver.execute_async_script("const done = arguments[0]; setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))), 180)")

    def draw(self):
        """Two frames, which is what the timeline and the table beside it need."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))")

    # ---- What it did ----

    def collect(self):
        self.said += [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                address = message["params"].get("request", message["params"])["url"]
                if not address.startswith(("file:///", "blob:", "data:", "about:")) or (address.startswith("file:")
                                                                                        and message["params"].get("type") != "Document"):
                    self.asked.append(address)

    def complaints(self):
        self.collect()
        said, self.said = self.said, []
        return said

    def requests(self):
        self.collect()
        asked, self.asked = self.asked, []
        return asked

    # ---- Hands ----

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def click(self, selector):
        self.find(selector).click()
        self.settle()

    def tab(self, name):
        self.click(f"#tab-{name}")
        assert self.script("document.querySelector('#panels > section').id") == f"panel-{name}"
        assert not self.find_all("#panels .trouble")

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)
        self.settle()

    def plot(self):
        """Where the picture of the timeline is in the window: left, top, width, height."""
        return self.script("""(() => { const {area} = vramtrace.timeline, box = document.getElementById('chart').getBoundingClientRect();
            return [box.left + area.left, box.top + area.top, area.width, area.height]; })()""")

    def mouse(self, *steps):
        """("move", x, y), ("down",), ("up",) in points of the window."""
        actions = ActionBuilder(self.driver, duration=20)
        for step, *place in steps:
            if step == "move":
                actions.pointer_action.move_to_location(*(round(value) for value in place))
            elif step == "down":
                actions.pointer_action.pointer_down()
            else:
                actions.pointer_action.pointer_up()
        actions.perform()
        self.draw()

    def hover(self, x, y):
        self.mouse(("move", x, y))

    def wheel(self, x, y, delta_y, delta_x=0):
        self.driver.execute_cdp_cmd("Input.dispatchMouseEvent",
                                    {"type": "mouseWheel", "x": x, "y": y, "deltaX": delta_x, "deltaY": delta_y})
        self.draw()

    def with_shift(self, action):
        ActionChains(self.driver).key_down(Keys.SHIFT).perform()
        try:
            action()
        finally:
            ActionChains(self.driver).key_up(Keys.SHIFT).perform()
        self.draw()

    # ---- Eyes ----

    def state(self):
        return self.script("vramtrace.store.get()")

    def moment(self):
        """The table beside the timeline: the event that it names, step, phase, and {label: (exact bytes, as printed)}."""
        title, where, rows = self.script("""[document.querySelector('#instant h2').textContent, document.querySelector('#instant .where').textContent,
            [...document.querySelectorAll('#instant tbody tr, #instant tfoot tr')].map(r => [r.cells[0].textContent, r.cells[1].title, r.cells[1].textContent, r.cells[2].title])]""")
        step, phase, event = re.fullmatch(r"(?:step ([\d,]+)|before step 1), (\w+) · event ([\d,]+)", where).groups()
        number = lambda text: int(text.replace(",", ""))  # noqa: E731
        return {"title": title, "step": number(step) if step else 0, "phase": phase, "event": number(event),
                "bytes": {label: exact_bytes(exact) for label, exact, _, _ in rows},
                "printed": {label: printed for label, _, printed, _ in rows},
                "differences": {label: exact_bytes(other) for label, _, _, other in rows if other}}

    def rows(self, part="#panels"):
        """The table of a part, all of its rows, but for those that only sum up others: (key, name, {column: (text, title)})"""
        while self.script("""((more) => more && (more.click(), true))(document.querySelector(arguments[0] + ' .vp-row[aria-expanded=false]') ??
            document.querySelector(arguments[0] + ' .vp-more button:last-child'))""", part):
            pass
        return self.script("""[...document.querySelectorAll(arguments[0] + ' .vp-table')].slice(0, 1).flatMap(table => {
            const heads = [...table.tHead.rows[0].cells].map(c => c.textContent.replace(/ [▾▴]$/, ''));
            return [...table.tBodies[0].rows].filter(r => !r.querySelector('[aria-expanded]')).map(r => [r.dataset.key ?? null, r.cells[0].textContent,
                Object.fromEntries([...r.cells].map((c, i) => [heads[i], [c.textContent, c.title]]))]); })""", part)

    def keep(self, name):
        """A picture for people to look at."""
        (self.folder / f"{name}.png").write_bytes(base64.b64decode(self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]))


def exact_bytes(text):
    """ "−1,024 B" or "+1,024 B" as a number."""
    sign, digits = re.fullmatch(r"([+−]?)([\d,]+) B", text).groups()
    return int(digits.replace(",", "")) * (-1 if sign == "−" else 1)
