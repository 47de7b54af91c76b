"""Each option is parsed, in --help, on the manual page and in the completions of each shell. The pages are read as a person sees them."""
import json
import re
import shutil
import subprocess

import pytest

from test_cli import BUILD, COMMANDS, ROOT, run
from test_jobs import job  # noqa: F401
from test_tables import little_trace

MAN = BUILD / "analyzer" / "man"
WITH_PAGE = [command for command in COMMANDS if command != "help"]
TABLES = [(ROOT / table).read_text() for table in ("analyzer/command/options.def", "analyzer/command/dryrun.def", "preload/options.def")]
NAMES = sorted({*re.findall(r'^X\("(--[\w-]+)"', "".join(TABLES[:2]), re.M),
                *("--" + name.lower().replace("_", "-") for name in re.findall(r"^X\((\w+),", TABLES[2], re.M))})


def rendered(path):
    """The page's lines, 80 columns wide."""
    for words in (["groff", "-mdoc", "-Tutf8", "-P-cbou", str(path)], ["mandoc", "-Tutf8", str(path)]):
        if shutil.which(words[0]):
            text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            return re.sub(".\x08", "", text).splitlines()
    pytest.skip("neither groff nor mandoc is here")


def section(lines, title):
    begin = lines.index(title) + 1
    return lines[begin:next(i for i in range(begin, len(lines)) if lines[i][:1].strip())]


def parsed(command):
    """Those that the command knows: a value that it does not take is a complaint of another kind."""
    return {name for name in NAMES if not re.search("unknown option|is an option of|is not available for",
                                                    run(command, f"{name}=no-such-value", "--help").stderr)}


def in_help(command):
    return set(re.findall(r"^  (?:    |-\w, )?(--[\w-]+)", run("help", command).stdout, re.M)) | {"--help"}


def on_page(command):
    lines = section(rendered(MAN / f"vramtrace-{command}.1"), "OPTIONS")
    return {match[1] for match in (re.match(r" {5}(?:-\w, )?(--[\w-]+)", line) for line in lines) if match}


def in_completions(command, shell):
    script = run("completions", shell).stdout
    if shell == "fish":
        return {"--" + name for name in re.findall(rf"^complete -c vramtrace -n '__vramtrace_command {command}' -l ([\w-]+)", script, re.M)}
    block = re.search(rf"^    {command}\)\n(.*?)^    (?:\w+\)|esac)$", script, re.M | re.S)[1]
    words = re.search(r"== -\* \]\]; then _vramtrace_words '(.*?)'",
                      block)[1].split() if shell == "bash" else re.findall(r"^ +'(--[\w-]+)", block, re.M)
    return set(words)


def test_names():
    assert len(NAMES) > 45 and {"--at", "--help", "--ring", "--no-pager"} <= set(NAMES)


@pytest.mark.parametrize("command", WITH_PAGE)
def test_an_option_is_everywhere(command):
    known = {"--help"} if command == "completions" else parsed(command) | {"--help"}
    assert "--out" in known or command in ("completions", "ctl", "mcp")
    assert in_help(command) == known
    assert on_page(command) == known
    for shell in ("bash", "zsh", "fish"):
        assert in_completions(command, shell) | {"--help"} == known, shell


@pytest.mark.parametrize("command", WITH_PAGE)
def test_a_page(command):
    lines = rendered(MAN / f"vramtrace-{command}.1")
    usage, summary = run("help", command).stdout.splitlines()[:2]
    assert re.sub(" +", " ", section(lines, "NAME")[0]).strip() == f"vramtrace-{command} — {summary.strip()}"
    assert "".join("".join(section(lines, "SYNOPSIS")).split()) == "".join(usage.split())
    statuses = [int(match[1]) for match in (re.match(r" {5}(\d) {2,}", line) for line in section(lines, "EXIT STATUS")) if match]
    assert statuses == [0, 1, 2, 3, 4, 5]
    assert all(len(line) <= 80 for line in lines)


def test_the_page_of_all_commands():
    listed = [match[1] for match in (re.match(r" {5}(\w+) ", line) for line in section(rendered(MAN / "vramtrace.1"), "COMMANDS")) if match]
    assert listed == COMMANDS
    assert {path.stem for path in MAN.glob("*.1")} == {"vramtrace", *(f"vramtrace-{command}" for command in WITH_PAGE)}


@pytest.mark.parametrize("page", ["vramtrace.1", "vramtrace-json.5", *(f"vramtrace-{command}.1" for command in WITH_PAGE)])
def test_no_warning(page):
    checks = [words for words in (["groff", "-ww", "-mdoc", "-Tutf8", "-z"], ["mandoc", "-T", "lint", "-W", "warning"])
              if shutil.which(words[0])]
    if not checks:
        pytest.skip("neither groff nor mandoc is here")
    for words in checks:
        result = subprocess.run([*words, str(MAN / page)], capture_output=True, text=True)
        assert (result.stdout + result.stderr, result.returncode) == ("", 0), words


def test_references():
    """A page refers to pages that are there."""
    for path in MAN.glob("*.[15]"):
        for name, number in re.findall(r"(vramtrace[\w-]*)\((\d)\)", " ".join(rendered(path))):
            assert (MAN / f"{name}.{number}").exists(), (path.name, name)


def keys(value):
    """{keys of an object: ...} of all objects, but those whose keys are names of something."""
    if isinstance(value, list):
        for item in value:
            yield from keys(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            if not isinstance(item, dict) or key not in ("categories", "kinds", "layers", "peak_by_phase"):
                yield from keys(item)


@pytest.mark.parametrize("command", ["report", "timeline", "leaks", "oom", "frag", "steps", "annotate", "info", "diff", "check",
                                     "list", "top"])
def test_json_fields(command, tmp_path):
    """The page has every field that is printed."""
    trace = tmp_path / "x.vrt"
    little_trace(trace)
    traces = {"diff": [f"{trace}@end", trace], "top": [], "check": ["--max-peak", "1", trace], "annotate": [trace]}.get(command, [trace])
    check_document(run(command, "--json", *traces))


@pytest.mark.parametrize("command", ["report", "oom"])
def test_json_fields_of_a_job(command, job):  # noqa: F811
    check_document(run(command, "--json", job))


def check_document(result):
    document = json.loads(result.stdout)
    text = "\n".join(rendered(MAN / "vramtrace-json.5"))
    assert document.pop("format") in text
    found = set(re.findall(r"^ {5}([a-z]\w*)(?:$| \(| {2})", text, re.M))
    assert set(keys(document)) <= found
