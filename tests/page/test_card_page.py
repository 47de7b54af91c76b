"""The page's tab of the card, in a browser: its numbers are those of the stand-in driver's books."""
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from test_browser import complaints, driver, look, pytestmark, settle  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))
from card_process import MIB, PAUSE, finish, start  # noqa: E402
from harness import ANALYZER  # noqa: E402
from helpers import shown_bytes  # noqa: E402

SCRIPT = """return [...document.querySelectorAll('#panels article')].map(article => [article.querySelector('h3').textContent,
    article.querySelector('.vp-figure').textContent, [...article.querySelectorAll('table')].map(table =>
        [...table.tBodies[0].rows].map(row => [row.cells[0].textContent, row.cells[1].title, row.cells[1].textContent]))])"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("card")
    shared, end = {"VRAMTRACE_STANDIN_SHARED": folder / "shared"}, folder / "end"
    other = start(None, "alloc:100", f"truth:{folder / 'other'}", f"wait:{end}", **shared)
    finish(start(folder / "a.vrt", f"wait:{folder / 'other'}", "alloc:40", "module", "host:5", "context", PAUSE,
                 f"truth:{folder / 'books'}",
                 f"ready:{end}", **shared), other)
    subprocess.run([ANALYZER, "html", "-o", folder / "page.html", folder / "a.vrt"], check=True)
    return folder / "page.html", json.loads((folder / "books").read_text()), json.loads((folder / "other").read_text())


def test_numbers_are_the_books(driver, look, page):  # noqa: F811
    path, books, other = page
    assert look(path, "#tab=card") == "yes"
    settle(driver)
    articles = driver.execute_script(SCRIPT)
    peak, last = articles[0], [article for article in articles if article[0] == "At the last reading"][0]
    for _, figure, (rows, beside) in (peak, last):
        found = {}
        for what, exact, _ in rows:
            found[what] = int(re.sub(r"\D", "", exact))
        assert sum(found.values()) == books["own"] + other["own"]
        assert found["unknown"] == books["allocation"] and found["unexplained"] == 0
        assert [size for what, size in found.items() if what.startswith(f"process {other['pid']}: ")] == [other["own"]]
        assert sum(size for what, size in found.items() if "CUDA context" in what) == books["context"]
        assert sum(size for what, size in found.items() if what.startswith("kernels and modules")) == books["module"]
        assert [(what, int(re.sub(r"\D", "", exact))) for what, exact, _ in beside] == [("pinned host memory", books["host"])]
        assert figure.endswith("of 16 GiB in use")
    advice = {article[0]: article[1] for article in articles if article not in (peak, last)}
    figures = [f"−{shown_bytes(size)}" for size in (other["own"], books["context"] - 300 * MIB)]
    assert all(any(figure.startswith(wanted) for figure in advice.values()) for wanted in figures)
    assert complaints(driver) == []


def test_a_context_without_memory(driver, look, tmp_path):  # noqa: F811
    trace, books = tmp_path / "a.vrt", tmp_path / "books"
    finish(start(trace, "alloc:40", "device:1", PAUSE, f"truth:{books}", VRAMTRACE_STANDIN_DEVICES="2"))
    subprocess.run([ANALYZER, "html", "-o", tmp_path / "page.html", trace], check=True)
    assert look(tmp_path / "page.html", "#tab=card") == "yes"
    settle(driver)
    (bare,) = [article for article in driver.execute_script(SCRIPT) if article[0].startswith("GPU ")]
    assert bare[0] == "GPU 1: only a CUDA context"
    assert bare[1] == shown_bytes(json.loads(books.read_text())['own'])
    assert "card.py:" in driver.execute_script("return document.querySelector('#panels').textContent")
    assert complaints(driver) == []
