"""The page's tab of fragmentation, in a browser: what returns empty segments is the framework's own call, or is not named."""
import subprocess
import sys
from pathlib import Path

import pytest

from test_browser import complaints, driver, look, pytestmark, settle  # noqa: F401

sys.path.append(str(Path(__file__).resolve().parents[1] / "golden"))
import page_data  # noqa: E402
from cached_program import FRAMEWORKS, write  # noqa: E402
from harness import ANALYZER  # noqa: E402


@pytest.mark.parametrize("name", ["torch", "paddle", "tensorflow", "not known"])
def test_empty_segments(driver, look, tmp_path, name):  # noqa: F811
    library, counted, (_, release) = FRAMEWORKS[name]
    trace = write(tmp_path / "run.vrt", library, counted)
    subprocess.run([ANALYZER, "html", "-o", tmp_path / "page.html", trace], check=True, capture_output=True)
    _, (page,) = page_data.read(tmp_path / "page.html")
    assert look(tmp_path / "page.html", f"#tab=frag&a={page.head['events'] - 1}") == "yes"
    settle(driver)
    text = " ".join(driver.execute_script("return document.querySelector('#panel-frag').textContent").split())
    assert f"In empty segments32 MiB{f'; {release} would return them' if release else ''}Between" in text, text
    assert complaints(driver) == []
