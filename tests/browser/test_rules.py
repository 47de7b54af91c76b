"""The rules of accessibility (WCAG 2, levels A and AA), by axe-core, on every tab in light and dark."""
import pytest
from browser import TABS
from conftest import LONG
from recordings import TEN

axe = pytest.importorskip("axe_core_python.selenium")
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
NAMES = [name for name in TEN if name != "barely"]


@pytest.mark.parametrize("width, height", [(1280, 800), *([(390, 844), (1920, 1080)] if LONG else [])])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", [*NAMES, "hostile"] if LONG else ["leak", "out_of_memory", "program"])
def test_no_rule_is_broken(browser, page_of, name, theme, width, height):
    browser.open(page_of(name), width=width, height=height, theme=theme)
    browser.press("b")
    browser.driver.execute_script("vramtrace.store.set({pinA: 20})")
    broken = {}
    for tab in TABS:
        browser.tab(tab)
        button = browser.find_all("#panels button.vp-row")
        if button:
            browser.driver.execute_script("arguments[0].click()", button[0])
            browser.settle()
        found = axe.Axe().run(browser.driver, options={"runOnly": {"type": "tag", "values": LEVELS}})
        assert found["passes"]  # it looked
        for rule in found["violations"]:
            broken.setdefault((tab, rule["id"]), [node["html"][:160] for node in rule["nodes"]][:3])
    assert broken == {}
