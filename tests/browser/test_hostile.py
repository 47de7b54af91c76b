"""Names that a real training had, and that attack whoever shows them: they are text, on every tab."""
import page_data
from browser import TABS

INJECTED = "[...document.querySelectorAll('body img, body svg[onload], body iframe, body object, body embed, body base, body link')].length"


def test_names_are_text(browser, page_of, traces):
    path = page_of("hostile")
    _, (trace,) = page_data.read(path)
    scripts = None
    for theme in ("light", "dark"):
        browser.open(path, theme=theme)
        now = browser.script("document.scripts.length")
        assert scripts in (None, now) and now <= 3  # HEAD, data, the program
        scripts = now
        for tab in TABS:
            browser.tab(tab)
            browser.keep(f"hostile-{tab}-{theme}")
            assert browser.script("window.hurt === undefined && document.body.dataset.hurt === undefined")
            assert browser.script(INJECTED) == 0
            assert browser.script("document.scripts.length") == scripts
            assert browser.script("document.querySelectorAll('[onload],[onerror],[onclick]').length") == 0
            shown = browser.script("document.body.innerText + [...document.querySelectorAll('[title]')].map(e => e.title).join() + [...document.querySelectorAll('[aria-label]')].map(e => e.ariaLabel).join()")
            assert not set(shown) & set("\u202e\u2066\u2028\u2029\ufeff\x1b\x07\x00"), tab
            wide, high = browser.script("[document.scrollingElement.scrollWidth, document.scrollingElement.scrollHeight]")
            assert (wide, high) == (1280, 800), tab
    # They are there, as they were.
    assert any("</script><script>" in text for text in trace.strings) and any(len(text) >= 10_000 for text in trace.strings)
    assert any("\ufffd" in mark["name"] for mark in trace.head["marks"])
    browser.tab("who")
    browser.driver.execute_script("vramtrace.toPeak()")
    browser.driver.execute_script("const s = document.querySelector('.vp-who select'); s.value = 'line'; s.dispatchEvent(new Event('change'))")
    browser.settle()
    assert any("</script><script>" in name or "<img src=x" in name for _, name, _ in browser.rows())
    # Each is chosen: stacks, files and sources are shown too.
    for button in browser.find_all(".vp-who button.vp-row")[:12]:
        browser.driver.execute_script("arguments[0].click()", button)
        browser.draw()
    assert browser.script("window.hurt === undefined && document.body.dataset.hurt === undefined") and browser.script(INJECTED) == 0


def test_searching_for_an_attack(browser, page_of):
    browser.open(page_of("hostile"))
    browser.press("/")
    browser.press("</script><img src=x onerror=window.hurt=1>")
    browser.wait("location.hash.includes('q=')")
    assert browser.script("window.hurt === undefined") and browser.script(INJECTED) == 0


def test_a_link_is_not_trusted(browser, page_of):
    """An address that somebody else wrote: nonsense and attacks in every field."""
    attack = "%3C%2Fscript%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.hurt%3D1%3E"
    fields = ("trace", "device", "axis", "zoom", "a", "b", "tab", "selection", "q", "theme", "patterns", "scale", "__proto__",
              "constructor")
    for value in (attack, "-1", "1e999", "NaN", "owner~" + attack, "~", "[object%20Object]", "9" * 400):
        browser.open(page_of("lora"), "&".join(f"{field}={value}" for field in fields))
        assert browser.script("window.hurt === undefined") and browser.script(INJECTED) == 0
        assert "from driver" in browser.moment()["bytes"]
