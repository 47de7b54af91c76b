"""Documentation: links and anchors lead somewhere, the index names every page, sources name pages that exist, results say where they come
from, and all of it stays short."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FIRST = [ROOT / "README.md", ROOT / "NEWS", ROOT / "CONTRIBUTING.md"]
PAGES = [*FIRST, *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*/README.md"), *(ROOT / "tests").rglob("README.md")]
SOURCES = [path for folder in "analyzer debian examples format include packaging preload python tests .ci".split()
           for path in (ROOT / folder).rglob("*") if path.is_file() and path.suffix != ".pyc"]
WORDS = 30_000  # of README, NEWS, CONTRIBUTING and docs/*.md; results apart
CODE = re.compile(r"^(`{3,}).*?^\1|^(?: {4}|\t).*?$|`[^`\n]*`", re.M | re.S)
LINK = re.compile(r"""\]\(\s*<?([^)>\s]+)[^)]*\)|^\[[^\]]+\]:\s*(\S+)|(?:src|href)="([^"]+)\"""", re.M)
MADE = re.compile(r"(Made|Measured) by .*(\d{4}-\d\d-\d\d\b.*\bcommits? [0-9a-f]{7,}|a test holds it equal)")


def name(path):
    return str(path.relative_to(ROOT))


def prose(path):
    return CODE.sub("", path.read_text())


def anchors(path):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", re.sub(r"^(`{3,}).*?^\1", "", path.read_text(), flags=re.M | re.S), re.M):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = base = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        for number in range(1, 100):
            if slug not in found:
                break
            slug = f"{base}-{number}"
        found.add(slug)
    return found


def links(path):
    """The relative links of a page: (text of the link, page or file, anchor)."""
    for link in ("".join(parts) for parts in LINK.findall(prose(path))):
        if not re.match(r"\w+:", link):
            target, _, anchor = link.partition("#")
            yield link, (path.parent / target).resolve() if target else path, anchor


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links(page):
    broken = [link for link, target, anchor in links(page)
              if not target.exists() or (anchor and anchor not in anchors(target))]
    assert not broken


def test_the_architecture_is_one_short_page():
    text = (DOCS / "architecture.md").read_text()
    words = re.findall(r"^\| (\S.*?) \|", text.split("## Glossary")[1], re.M)[1:]
    assert len(text.splitlines()) < 130
    assert len(words) <= 40 and words == sorted(words, key=str.lower)


def test_index():
    """docs/README.md links every page; pictures are on some page."""
    indexed = {target for _, target, _ in links(DOCS / "README.md")}
    assert not [name(page) for page in DOCS.rglob("*.md") if page not in indexed and page != DOCS / "README.md"]
    linked = {target for page in PAGES for _, target, _ in links(page)}
    others = [path for path in DOCS.rglob("*") if path.is_file() and path.suffix not in (".md", ".pyc")]
    text = (DOCS / "README.md").read_text()
    assert not [name(path) for path in others if path not in linked and path.name not in text]


def test_names_in_sources():
    """A page that a source names is there."""
    wrong = []
    for path in (*SOURCES, *FIRST):
        for page in re.findall(rb"(?<![\w/])docs/[\w./-]+\.md\b", path.read_bytes()):
            if not (ROOT / page.decode()).exists():
                wrong.append(f"{name(path)}: {page.decode()}")
    assert not wrong


@pytest.mark.parametrize("page", sorted((DOCS / "results").glob("*.md")), ids=name)
def test_results_say_where_they_come_from(page):
    title, made, *_ = page.read_text().split("\n\n")
    assert title.startswith("# ") and "\n" not in title and MADE.match(" ".join(made.split())), made


def test_length():
    words = {name(page): len(page.read_text().split()) for page in (*FIRST, *DOCS.glob("*.md"))}
    assert sum(words.values()) < WORDS, sorted(words.items(), key=lambda item: -item[1])
