"""Tests of the other folders that mean the same on a card, as pytest runs them."""
import subprocess
import sys
import xml.etree.ElementTree as xml

from figures import NotRun
from helpers import ENVIRONMENT, ROOT


def suite(*selection, **settings):
    """A judge: runs pytest with these files, tests and options; each failure is a row."""

    def judge(figures, folder):
        if subprocess.run([sys.executable, "-c", "import pytest"], capture_output=True).returncode:
            raise NotRun("pytest is not installed")
        with open(folder / "output.log", "w") as log:
            subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", f"--basetemp={folder}/pytest",
                            f"--junitxml={folder}/tests.xml", *selection], cwd=ROOT, env={**ENVIRONMENT, **settings}, stdout=log,
                           stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        passed = 0
        for case in xml.parse(folder / "tests.xml").iter("testcase"):
            bad, skipped = [entry for entry in case if entry.tag in ("failure", "error")], case.find("skipped")
            if bad:
                figures.row(f"{case.get('classname')}.{case.get('name')}", "the test", None,
                            (bad[0].get("message") or "").strip()[:300], "differs")
            elif skipped is not None:
                figures.told(f"skipped: {case.get('name')}", skipped.get("message"))
            else:
                passed += 1
        figures.told("tests that passed", passed)
        if not passed and not figures.failed:
            raise NotRun("every test was skipped")

    return judge
