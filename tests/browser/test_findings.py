"""Findings first: what the terminal concludes is under the title, leads to its place, and each word is explained."""
import itertools
import json
import re
import subprocess

import pytest
from browser import printed_bytes
from selenium.webdriver.common.keys import Keys
from test_jobs import MIB, write_rank

import helpers

CHIPS = "[...document.querySelectorAll('#findings a')].map(a => a.textContent)"
RANKS_A_PAGE = 200


def said(command, trace):
    return json.loads(helpers.vramtrace(command, "--json", trace).stdout)


def text_of(browser, selector="#panels"):
    return " ".join(browser.find(selector).text.split())


def uncut(browser):
    """Nothing of the header is cut or scrolled away."""
    return browser.script("""[...document.querySelectorAll('#findings, #findings a, #verdict, #verdict p')].every(e => {
        const box = e.getBoundingClientRect(); return e.scrollHeight <= e.clientHeight + 1 + 99 * (getComputedStyle(e).display === 'inline')
            && box.left >= 0 && box.right <= innerWidth && box.bottom <= document.getElementById('stage').getBoundingClientRect().top; })""")


def test_out_of_memory_is_first(browser, page_of, traces):
    """The chip and the tab say what `oom` says: the request, each cause with its remedy."""
    told = said("oom", traces["out_of_memory"])
    browser.open(page_of("out_of_memory"))
    assert browser.state()["tab"] == "oom" and uncut(browser)
    chip = browser.script(CHIPS)[0]
    assert chip.startswith(f"Out of memory: {printed_bytes(told['out_of_memory'][-1]['requested_bytes'])} requested")
    shown = text_of(browser)
    assert told["last"]["causes"]
    for cause in told["last"]["causes"]:
        for part in (cause["what"], cause["remedy"], cause["examined"], printed_bytes(cause["bytes"])):
            assert " ".join(part.split()) in shown, part
    event = browser.script("vramtrace.model.eventOf(vramtrace.store.get().pinA)")
    assert event <= told["out_of_memory"][-1]["event"]
    assert browser.script("vramtrace.model.changeAtEvent(arguments[0])", told["out_of_memory"][-1]["event"]) == browser.state()["pinA"]
    browser.open(page_of("out_of_memory"), "tab=who")  # who asks for a place gets it
    assert browser.state()["tab"] == "who" and browser.state()["pinA"] is None


def test_a_leak_and_its_step(browser, page_of, traces):
    (leak,) = said("leaks", traces["leak"])["devices"][0]["leaks"]
    for width, height in ((1280, 800), (390, 844)):
        browser.open(page_of("leak"), width=width, height=height)
        assert browser.state()["tab"] == "leaks" and uncut(browser)
        assert browser.script(CHIPS)[0] == f"Leak: {printed_bytes(leak['bytes_per_step'])} per step · {leak['verdict']}"
        assert browser.script("vramtrace.model.stepOf(vramtrace.store.get().pinA)") == leak["last_step"]
    # By mouse to another place, by keyboard back.
    browser.open(page_of("leak"), "tab=who&theme=dark")
    browser.find("#findings a").send_keys(Keys.ENTER)
    browser.wait("vramtrace.store.get().tab === 'leaks'")
    assert browser.state()["theme"] == "dark"
    assert "no out-of-memory error" in text_of(browser, "#verdict")
    browser.tab("oom")
    assert text_of(browser) == "No out-of-memory errors."


def test_what_was_not_judged_is_no_good_news(browser, page_of, traces):
    """The header's line is the report's status; 5 steps are too few to speak of leaks."""
    browser.open(page_of("transformer"))
    verdict = text_of(browser, "#verdict")
    status = next(line for line in helpers.vramtrace("report", traces["transformer"]).stdout.splitlines() if "nothing lost" in line)
    assert verdict.startswith(status) and "no leak" not in verdict and "leaks not judged" in verdict
    assert browser.state()["tab"] == "who" and uncut(browser)
    advice = said("report", traces["transformer"])["devices"][0]["advice"][0]
    chip = browser.find("#findings a")
    assert chip.text == f"−{printed_bytes(advice['bytes'])}: {advice['what']}"
    chip.click()
    browser.wait("vramtrace.store.get().tab === 'advice'")
    assert advice["why"] in text_of(browser)
    full = " ".join(helpers.vramtrace("report", "--full", traces["transformer"]).stdout.split())
    browser.tab("card")
    assert (gpu := re.search(r"GPU: [^.]*of this process = .*? context\.", full)) and gpu[0] in text_of(browser)
    browser.tab("who")
    assert (evidence := re.search(r"Evidence: .*? lost\.", full)) and evidence[0] in text_of(browser, ".vp-details")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Rank 5 has 64 MiB more than the other seven."""
    folder = tmp_path_factory.mktemp("ranks") / "job"
    folder.mkdir()
    for rank in range(8):
        write_rank(folder / f"x{rank}.vrt", rank, [64 * MIB] * (2 + (rank == 5)), world=8)
    helpers.vramtrace("html", "-o", folder.parent / "job.html", folder)
    return folder


def test_a_job_by_mouse_and_by_keys(browser, job):
    browser.open(job.parent / "job.html")
    assert browser.state()["tab"] == "ranks" and browser.state()["trace"] == 5
    assert browser.script(CHIPS) == ["Outlier: +64 MiB · rank 5"] and uncut(browser)
    assert [option.text for option in browser.find_all("#trace option")] == [f"rank {rank}" for rank in range(8)]
    shown, told = text_of(browser), json.loads(helpers.vramtrace("report", "--json", job).stdout)
    wide = subprocess.run([helpers.BUILD / "analyzer" / "vramtrace", "report", job], capture_output=True, text=True, check=True,
                          env={"COLUMNS": "400", "LANG": "C.UTF-8"}).stdout
    sentences = [line for line in itertools.takewhile(lambda line: not line.startswith("Process "), wide.splitlines()[1:]) if line]
    assert any("Rank 5 peaks at" in line for line in sentences)
    for line in sentences:
        assert " ".join(line.split()) in shown, line
    assert printed_bytes(told["gpus"][0]["most_bytes"]) in shown
    rows = browser.rows()
    assert [cells["Peak in use"][0] for _, _, cells in rows] == [printed_bytes(process["devices"][0]["peak"]["used_bytes"]) for process in told["processes"]]
    # A click on the third row of the strip, then by keys two ranks down.
    left, top, width, height = browser.script("(b => [b.left, b.top, b.width, b.height])(document.querySelector('.vp-heatstrip').getBoundingClientRect())")
    browser.mouse(("move", left + width / 2, top + 2.5 * height / 8), ("down",), ("up",))
    browser.wait("document.body.dataset.ready === 'yes' && vramtrace.model.data.index === 2")
    browser.settle()
    assert browser.script("document.activeElement.className") == "vp-heatstrip"
    browser.press(Keys.ARROW_DOWN)
    browser.press(Keys.ARROW_DOWN)
    assert browser.script("document.activeElement.getAttribute('aria-valuetext')").startswith("rank 4: peak 128 MiB")
    browser.press(Keys.ENTER)
    browser.wait("document.body.dataset.ready === 'yes' && vramtrace.model.data.index === 4")
    browser.keep("job")


def test_a_page_of_many_ranks_is_small(browser, traces, tmp_path):
    """A leak in one rank is where the page opens, and 200 such ranks are at most 8 MB."""
    folder = tmp_path / "many"
    folder.mkdir()
    for rank in range(20):
        (folder / f"r{rank}.vrt").symlink_to(traces["leak" if rank == 13 else "transformer" if rank == 7 else "lora"])
    helpers.vramtrace("html", "-o", tmp_path / "many.html", folder)
    browser.open(tmp_path / "many.html")
    assert (browser.state()["trace"], browser.state()["tab"]) == (13, "leaks")
    assert browser.script("document.querySelector('[data-term=\"tab ranks\"]').textContent") == "Ranks"
    for link in folder.iterdir():
        link.unlink()
        link.symlink_to(traces["leak"])
    helpers.vramtrace("html", "-o", tmp_path / "leaks.html", folder)
    helpers.vramtrace("html", "-o", tmp_path / "one.html", traces["barely"])
    sizes = [(tmp_path / name).stat().st_size for name in ("leaks.html", "one.html")]
    assert (sizes[0] - sizes[1]) / 20 * RANKS_A_PAGE + sizes[1] <= 8e6


def test_each_word_is_explained(browser, page_of):
    """By the pointer and by the focus, in one place and with one text; Escape ends it."""
    browser.open(page_of("leak"), "tab=who&axis=event")
    tip = "(t => t && t.checkVisibility() ? t.textContent : '')(document.getElementById('tip'))"
    term = browser.find("#instant tbody [data-term=activation]")
    box = browser.script("(b => [b.left + 30, b.top + 8])(arguments[0].getBoundingClientRect())", term)
    browser.hover(*box)
    assert browser.script(tip) == "Results of the forward pass that backward still needs."
    browser.hover(5, 5)
    assert browser.script(tip) == ""
    seen = set()
    browser.driver.execute_script("document.querySelector('#instant .where [data-term]').focus()")
    for _ in range(14):
        browser.press(Keys.ARROW_DOWN)
        seen.add(browser.script("document.activeElement.dataset.term"))
        assert browser.script(tip) and browser.script("document.activeElement.getAttribute('aria-describedby')") == "tip"
    assert {"in use", "cached", "context", "from driver", "gpu size", "parameter"} <= seen
    browser.press(Keys.ESCAPE)
    assert browser.script(tip) == ""
    # Marks and lanes of the picture, by the pointer; the moment's mark or phase, by keys.
    left, top, width, height = browser.plot()
    for below, word in ((32, "iteration"), (48, "")):
        browser.hover(left + width / 2, top + height + below)
        told = browser.script(tip)
        assert told and word in told
    mark = browser.script("(m => m.from + 5)(vramtrace.timeline.marks.find(m => m.term === 'peak'))")
    browser.hover(browser.script("document.getElementById('chart').getBoundingClientRect().left") + mark,
                  top - 10 if browser.script("vramtrace.timeline.marks.find(m => m.term === 'peak').y > vramtrace.timeline.area.top - 14") else top - 25)
    assert "most in use" in browser.script(tip)
    browser.driver.execute_script("document.getElementById('chart').focus()")
    browser.press("p")
    browser.press(Keys.ARROW_RIGHT)
    browser.press("p")
    assert "most in use" in browser.script(tip)
    browser.press("?")
    assert "Results of the forward pass" in browser.script("document.getElementById('help-terms').textContent")
    browser.press(Keys.ESCAPE)
