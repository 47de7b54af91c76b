"""What the tests of this folder share: recordings, pages of them, and a browser that is cut off from every network.

Needs VRAMTRACE_READERS' packages and Chromium; runs with that interpreter (tests/run.sh).
VRAMTRACE_PAGE_LONG=1: every check with every trace. VRAMTRACE_PAGE_RECORDINGS=FOLDER: recordings are kept there, and used again.
"""
import os
import pathlib
import shutil

import pytest

pytest.importorskip("selenium")
import recordings  # noqa: E402  also finds tests/ and tests/golden/
from browser import Browser  # noqa: E402

import helpers  # noqa: E402

LONG = os.environ.get("VRAMTRACE_PAGE_LONG") == "1"


def pytest_collection_modifyitems(items):
    missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    if missing:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=f"not found: {missing}"))


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    kept = os.environ.get("VRAMTRACE_PAGE_RECORDINGS")
    if not kept:
        return recordings.record(tmp_path_factory.mktemp("traces"))
    found = {path.stem: path for path in pathlib.Path(kept).glob("*.vrt")}
    return found or recordings.record(kept)


@pytest.fixture(scope="session")
def page_of(traces, tmp_path_factory):
    """The page of a recording by its name; made once."""
    folder = tmp_path_factory.mktemp("pages")

    def make(name):
        path = folder / f"{name}.html"
        if not path.exists():
            helpers.vramtrace("html", "-o", path, traces[name])
        return path
    return make


@pytest.fixture(scope="session")
def browser():
    folder = helpers.BUILD / "screenshots"
    folder.mkdir(exist_ok=True)
    with Browser(folder) as one:
        yield one


@pytest.fixture(autouse=True)
def nothing_asked_and_nothing_complained(request):
    """After each test that used it: the browser's console is silent, and no page asked for anything but itself."""
    yield
    if "browser" in request.fixturenames:
        one = request.getfixturevalue("browser")
        assert one.complaints() == []
        assert one.requests() == []
