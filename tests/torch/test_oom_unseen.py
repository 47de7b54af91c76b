"""Out of memory in programs that nobody looked at while mending (oom_unseen/*.py, oom_fresh/*.py). Each says in two comments by which word it
is told right, of its cause and of the remedy that it applies if its argument is "fixed".

As a program, prints a table of all of them; the suite runs a few.
"""
import json
import pathlib
import re
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import helpers  # noqa: E402

pytestmark = pytest.mark.skipif(not helpers.RUN, reason="fills the card: only over the stand-in, whose size can be set")

SCRIPTS = {path.stem: path for folder in ("oom_unseen", "oom_fresh") for path in sorted((HERE / folder).glob("*.py"))}
CARD_BYTES = 2 << 30
SHORT = ["evaluation", "forgotten_teacher", "kept_exception", "second_model"]


def run(folder, names):
    """{name: exit code}, also of its fixed form."""
    jobs = [job for name in names for job in (f"{name}={SCRIPTS[name]}", f"{name}-fixed={SCRIPTS[name]},fixed")]
    result = helpers.run([helpers.PYTHON, HERE / "fork_all.py", folder, *jobs], folder / "%p.vrt", timeout=400,
                         PYTHONPATH=str(HERE / "oom"), VRAMTRACE_STANDIN_MEMORY=str(CARD_BYTES))
    return json.loads(result.stdout.splitlines()[-1])


def expected(name, what):
    """The words after "# CAUSE:" or "# REMEDY:", one of which the text must have."""
    return re.search(rf"^# {what}: (.+)$", SCRIPTS[name].read_text(), re.M)[1].lower().split("|")


def judge(folder, name, codes):
    """The errors as text, "" = none; and the cause that was told."""
    shown = json.loads(helpers.vramtrace("oom", "--json", folder / f"{name}.vrt").stdout)
    refused = [json.loads(line) for line in (folder / f"{name}.log").read_text().splitlines() if line.startswith('{"asked"')]
    if not shown["out_of_memory"] or not shown["last"]["causes"]:
        return "no cause told", {"what": "–", "remedy": "–"}
    cause, wrong = shown["last"]["causes"][0], []
    if [each["tried_bytes"] for each in shown["out_of_memory"]] != [each["asked"] for each in refused]:  # of the driver
        wrong.append("other requests than those that failed")
    if not any(word in f"{cause['kind']} {cause['what']} {cause.get('holder') or ''}".lower() for word in expected(name, "CAUSE")):
        wrong.append(f"cause: expected {expected(name, 'CAUSE')}")
    if not any(word in cause["remedy"].lower() for word in expected(name, "REMEDY")):
        wrong.append(f"remedy: expected {expected(name, 'REMEDY')}")
    if not cause["suffices"]:
        wrong.append("what it frees is not enough")
    if codes[name] == 0 or codes[f"{name}-fixed"] != 0:
        wrong.append(f"exit codes {codes[name]}, and {codes[f'{name}-fixed']} with the remedy")
    return "; ".join(wrong), cause


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unseen")
    return folder, run(folder, SHORT)


@pytest.mark.parametrize("name", SHORT)
def test_the_cause_and_its_remedy(runs, name):
    wrong, cause = judge(runs[0], name, runs[1])
    assert not wrong, cause


def main():
    names, right = list(SCRIPTS), 0
    print("| script | cause | remedy | |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        codes = run(pathlib.Path(folder), names)
        for name in names:
            wrong, cause = judge(pathlib.Path(folder), name, codes)
            right += not wrong
            print(f"| {name} | {cause['what']} | {cause['remedy']} | {wrong or 'right'} |")
    print(f"\n{right} of {len(names)} right.")


if __name__ == "__main__":
    main()
